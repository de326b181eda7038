/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What becomes known outside: a JSON object a line, for each connection and in total. satpep(8) describes them. */
#ifndef SATPEP_STATISTICS_H
#define SATPEP_STATISTICS_H

#include <stdint.h>
#include <stdio.h>

struct connection;

struct totals {
	uint64_t accepted, connected, ended;
	uint64_t bytes[2]; /* from the client, from the server */
	int open, most_open;
};

/* Seconds since 1970. */
double statistics_time_s(void);

/* The first line: from now on connections are taken. */
void statistics_ready(FILE *out, uint16_t port);

void statistics_connection(FILE *out, const char *event, const struct connection *connection);

void statistics_totals(FILE *out, const struct totals *totals);

#endif
