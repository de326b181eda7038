/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the command line says. */
#ifndef SATPEP_OPTIONS_H
#define SATPEP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { CC_NAME_BYTES = 16, USER_NAME_BYTES = 32 };

/* One leg of every connection: the TCP towards the client, or the one towards the server. 0 and "" leave it to the kernel. */
struct leg_options {
	char cc[CC_NAME_BYTES];
	int mss;
	int initcwnd;
	int sndbuf_bytes;
	int rcvbuf_bytes;
	int keepalive_s; /* 0: none */
	bool nodelay;
	bool quickack;
	bool fastopen;
};

enum side { CLIENT, SERVER, SIDES };

struct options {
	struct leg_options legs[SIDES];
	uint16_t port;
	int max_connections;
	int max_per_client; /* 0: as many as there may be in all */
	int pipe_bytes;
	int connect_timeout_s;
	int lifetime_s;
	int drain_s;
	int totals_interval_s;
	const char *log_file;
	char user[USER_NAME_BYTES];
	bool daemon;
	bool verbose;
};

enum parsed { PARSED_RUN, PARSED_SHOWN, PARSED_WRONG };

/*
 * Reads the command line into *options. PARSED_SHOWN: help or the version was asked for and printed. PARSED_WRONG: error[]
 * says what is wrong, where, and what would be right.
 */
enum parsed options_parse(int argc, char **argv, struct options *options, char *error, unsigned long error_bytes);

#endif
