/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What connections wait for, each with a limit and what it comes to when the limit has passed. */
#ifndef SATPEP_TIME_LIMITS_H
#define SATPEP_TIME_LIMITS_H

#include "connection.h"

enum wait { WAIT_SERVER, WAIT_BYTES, WAIT_RESET, WAITS };

struct time_limits {
	struct time_limit {
		struct list connections; /* the longest-waiting one first */
		int limit_s;
		const char *outcome;
	} waits[WAITS];
};

void time_limits_init(struct time_limits *limits, const struct options *options);

/* The connection waits from now on (`now_s`, monotonic), for what its state says. */
void time_limits_start(struct time_limits *limits, struct connection *connection, time_t now_s);

/* One whose limit has passed, and its outcome; NULL: none. */
struct connection *time_limits_passed(const struct time_limits *limits, time_t now_s, const char **outcome);

/* When the next limit passes; 0: never. */
time_t time_limits_next_s(const struct time_limits *limits);

/* Any connection of all; NULL: there is none. */
struct connection *time_limits_any(const struct time_limits *limits);

#endif
