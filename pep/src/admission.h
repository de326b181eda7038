/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which connections the proxy takes. When it is full, or a client has as many as it may have, new connections pass by: they reach
 * the server unsplit. Those that it has are not touched.
 *
 * For each family two sockets listen on the port as one group (SO_REUSEPORT), and a program of the group (classic BPF) says for
 * every SYN which one it is for. Only the first one is transparent: where the program names the second one, a rule with `tproxy`
 * finds no socket to hand the SYN to, does nothing, and the SYN goes on as if there were no proxy. So it does when there is none.
 */
#ifndef SATPEP_ADMISSION_H
#define SATPEP_ADMISSION_H

#include "leg.h"
#include "list.h"

enum { FAMILIES = 2, ADMISSION_BUCKETS = 1024 };

/* Descriptors; -1 where the host has no such protocol. */
struct listener {
	int takes, passes_by;
};

struct admission {
	struct listener listeners[FAMILIES]; /* IPv4, IPv6 */
	bool full;
	int most_per_client; /* 0: any number */
	struct list clients[ADMISSION_BUCKETS];
	struct list at_limit; /* those clients that have as many connections as they may have */
};

/* false with a message on stderr. */
bool admission_open(struct admission *admission, const struct options *options);
void admission_close(struct admission *admission);

/* Whether all new connections pass by. */
void admission_set_full(struct admission *admission, bool full);

/* A client has a connection more (1) or less (-1). */
void admission_count(struct admission *admission, const union address *client, int change);

#endif
