// SPDX-License-Identifier: GPL-3.0-or-later
#include "time_limits.h"

enum { RESET_LIMIT_S = 60 }; /* for the last bytes before a reset */

void time_limits_init(struct time_limits *limits, const struct options *options)
{
	*limits = (struct time_limits){.waits = {
		[WAIT_SERVER] = {.limit_s = options->connect_timeout_s, .outcome = "timed out"},
		[WAIT_BYTES] = {.limit_s = options->lifetime_s, .outcome = "idle"},
		[WAIT_RESET] = {.limit_s = RESET_LIMIT_S, .outcome = "reset"},
	}};
	for (int wait = 0; wait < WAITS; wait++)
		list_init(&limits->waits[wait].connections);
}

void time_limits_start(struct time_limits *limits, struct connection *connection, time_t now_s)
{
	static const enum wait of[] = {
		[CONNECTING] = WAIT_SERVER, [RELAYING] = WAIT_BYTES, [CLOSING] = WAIT_BYTES, [RESETTING] = WAIT_RESET};
	enum wait wait = of[connection->state];
	if (!list_empty(&connection->wait) && connection->waits_for == (int)wait && wait != WAIT_BYTES)
		return; /* an event that changes nothing gives no more time */
	connection->waits_for = wait;
	connection->since_s = now_s;
	list_move_last(&limits->waits[wait].connections, &connection->wait);
}

static struct connection *first(const struct time_limit *limit)
{
	return list_empty(&limit->connections) ? NULL : container_of(limit->connections.next, struct connection, wait);
}

struct connection *time_limits_passed(const struct time_limits *limits, time_t now_s, const char **outcome)
{
	for (int wait = 0; wait < WAITS; wait++) {
		const struct time_limit *limit = &limits->waits[wait];
		struct connection *longest = first(limit);
		if (!longest || longest->since_s + limit->limit_s > now_s)
			continue;
		*outcome = limit->outcome;
		return longest;
	}
	return NULL;
}

time_t time_limits_next_s(const struct time_limits *limits)
{
	time_t next_s = 0;
	for (int wait = 0; wait < WAITS; wait++) {
		const struct connection *longest = first(&limits->waits[wait]);
		if (longest && (!next_s || longest->since_s + limits->waits[wait].limit_s < next_s))
			next_s = longest->since_s + limits->waits[wait].limit_s;
	}
	return next_s;
}

struct connection *time_limits_any(const struct time_limits *limits)
{
	for (int wait = 0; wait < WAITS; wait++)
		if (first(&limits->waits[wait]))
			return first(&limits->waits[wait]);
	return NULL;
}
