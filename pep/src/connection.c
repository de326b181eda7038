// SPDX-License-Identifier: GPL-3.0-or-later
#include "connection.h"

#include <errno.h>
#include <stdlib.h>

#include "statistics.h"

enum { BULK_BYTES = 64 << 10 };

static const char *const reset_by[SIDES] = {"client reset", "server reset"};
static const char *const lost[SIDES] = {"client lost", "server lost"};

/* What a server that was not reached did. */
static const char *refusal(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return "refused";
	case ETIMEDOUT:
		return "timed out";
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EACCES: /* a route of type prohibit */
	case EINVAL: /* one of type blackhole */
		return "unreachable";
	default:
		return "no way to the server";
	}
}

void connection_end(struct connection *connection, const char *outcome)
{
	connection->state = OVER;
	connection->outcome = outcome;
}

struct connection *connection_open(uint64_t id, int client_fd, const union address *client, const union address *server,
				   const struct options *options)
{
	struct connection *made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	made->id = id;
	made->ends[CLIENT] = *client;
	made->ends[SERVER] = *server;
	made->legs[CLIENT] = (struct leg){.fd = client_fd, .side = CLIENT};
	made->accepted_s = statistics_time_s();
	list_init(&made->wait);
	list_init(&made->turn);
	relay_init(&made->relays[CLIENT]);
	relay_init(&made->relays[SERVER]);
	made->legs[CLIENT].writable = true;
	const struct leg_target target = {
		.client = client,
		.server = server,
		.tos = leg_syn_tos(&made->legs[CLIENT]),
		.has_data = options->legs[SERVER].fastopen && leg_received_bytes(&made->legs[CLIENT]) > 0,
	};
	int server_fd = leg_connect(&target, &options->legs[SERVER]);
	made->legs[SERVER] = (struct leg){.fd = server_fd, .side = SERVER};
	if (server_fd < 0)
		connection_end(made, refusal(errno));
	return made;
}

static bool is_lost(int error)
{
	return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

static void fail(struct connection *connection, enum side side, int error)
{
	connection->state = RESETTING;
	connection->failed = side;
	connection->outcome = is_lost(error) ? lost[side] : reset_by[side];
}

static void begin_relaying(struct connection *connection, int tos)
{
	connection->state = RELAYING;
	if (tos)
		leg_set_tos(&connection->legs[CLIENT], tos);
}

static void connected(struct connection *connection, const struct relaying *with)
{
	int error = leg_error(&connection->legs[SERVER]);
	if (connection->legs[CLIENT].failed)
		connection_end(connection, reset_by[CLIENT]);
	else if (error == ECONNRESET || error == EPIPE) /* after it had answered: what it sent until then goes to the client */
		fail(connection, SERVER, error);
	else if (error || connection->legs[SERVER].failed)
		connection_end(connection, refusal(error));
	else
		begin_relaying(connection, answer_tos_of(with->answers, &connection->ends[CLIENT], &connection->ends[SERVER]));
}

bool connection_wants_to_write(const struct connection *connection, enum side side)
{
	if (connection->state == CONNECTING)
		return side == SERVER;
	if (connection->state == RESETTING && side != connection->failed)
		return true;
	return !connection->legs[side].writable;
}

static enum relayed relay(struct connection *connection, const struct relaying *with, enum side from)
{
	struct leg *legs = connection->legs;
	uint64_t before_bytes = connection->relays[from].bytes;
	enum relayed result = relay_run(&connection->relays[from], with->pipes, &legs[from], &legs[!from]);
	connection->bulk |= connection->relays[from].bytes - before_bytes >= BULK_BYTES;
	if (with->options->legs[from].quickack)
		leg_acknowledge_at_once(&legs[from]);
	return result;
}

/* An event has told of a failure that no call did. */
static void fail_as_told(struct connection *connection)
{
	enum side side = connection->legs[CLIENT].failed ? CLIENT : SERVER;
	fail(connection, side, leg_error(&connection->legs[side]));
}

static bool relay_both(struct connection *connection, const struct relaying *with)
{
	bool more = false;
	connection->bulk = false;
	for (enum side from = CLIENT; from < SIDES; from++) {
		enum relayed result = relay(connection, with, from);
		more |= result == RELAY_GOES_ON;
		if (result == RELAY_FROM_FAILED || result == RELAY_TO_FAILED) {
			fail(connection, result == RELAY_FROM_FAILED ? from : (enum side)!from, connection->relays[from].error);
			return true;
		}
	}
	if (connection->relays[CLIENT].closed && connection->relays[SERVER].closed)
		connection->state = CLOSING;
	else if (connection->legs[CLIENT].failed || connection->legs[SERVER].failed)
		fail_as_told(connection);
	else
		return more;
	return true;
}

static void wait_until_sent(struct leg *leg)
{
	leg_wait_until_sent(leg);
	leg->watches_write = false; /* it is asked for once more: the kernel tells only after it has looked with the new setting */
}

/* What the reset end had sent before is on its way to the other end before the reset is. */
static bool relay_the_rest(struct connection *connection, const struct relaying *with)
{
	enum side failed = connection->failed;
	struct leg *other = &connection->legs[!failed];
	struct relay *rest = &connection->relays[failed];
	enum relayed result = relay(connection, with, failed);
	bool moved_all = (rest->ended || rest->broken) && !rest->held_bytes;
	if (other->failed || result == RELAY_TO_FAILED || (moved_all && !leg_unsent_bytes(other)))
		connection_end(connection, connection->outcome);
	else if (moved_all)
		wait_until_sent(other);
	return result == RELAY_GOES_ON;
}

bool connection_advance(struct connection *connection, const struct relaying *with)
{
	bool more = false;
	enum state before;
	do {
		before = connection->state;
		switch (before) {
		case CONNECTING:
			if (connection->legs[SERVER].writable || connection->legs[CLIENT].failed)
				connected(connection, with);
			break;
		case RELAYING:
			more = relay_both(connection, with);
			break;
		case RESETTING:
			more = relay_the_rest(connection, with);
			break;
		case CLOSING:
			more = false;
			if (leg_is_closed(&connection->legs[CLIENT]) && leg_is_closed(&connection->legs[SERVER]))
				connection_end(connection, "closed");
			break;
		case OVER:
			more = false;
		}
	} while (connection->state != before);
	return more;
}

void connection_free(struct connection *connection, struct pipes *pipes)
{
	for (enum side side = CLIENT; side < SIDES; side++) {
		leg_reset(&connection->legs[side]);
		relay_end(&connection->relays[side], pipes);
	}
	list_remove(&connection->wait);
	list_remove(&connection->turn);
	free(connection);
}
