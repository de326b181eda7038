/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What becomes known outside: a JSON object a line, for each connection and in total. satpep(8) describes them. */
#ifndef SATPEP_STATISTICS_H
#define SATPEP_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"

struct connection;

struct totals {
	uint64_t accepted, connected, ended;
	uint64_t turned_away; /* reset because no descriptor was left */
	uint64_t bytes[2];    /* from the client, from the server */
	uint64_t copied_bytes; /* of both: those that no pipe was left for */
	int open, most_open;
};

/* Seconds since 1970. */
double statistics_time_s(void);

/* The first line: from now on connections are taken. */
void statistics_ready(struct log *log, uint16_t port);

void statistics_connection(struct log *log, const char *event, const struct connection *connection);

/* New connections pass by from now on (`full`), or are taken again. */
void statistics_admission(struct log *log, bool full, int open);

void statistics_totals(struct log *log, const struct totals *totals);

#endif
