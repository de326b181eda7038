/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A split connection: two legs, a relay in each direction, and what becomes of one end at the other. */
#ifndef SATPEP_CONNECTION_H
#define SATPEP_CONNECTION_H

#include <time.h>

#include "answer_tos.h"
#include "leg.h"
#include "list.h"
#include "relay.h"

enum state {
	CONNECTING, /* the client is accepted, the server has not answered yet */
	RELAYING,
	RESETTING, /* one leg was reset; what it had sent before still goes to the other, then the reset */
	CLOSING,   /* both have had the other's FIN; what was sent is not all acknowledged yet */
	OVER,
};

struct connection {
	uint64_t id;
	enum state state;
	enum side failed; /* in RESETTING: the leg that was reset */
	const char *outcome; /* NULL until it is OVER or RESETTING */
	union address ends[SIDES]; /* of the client, and of the server as the client knows it */
	struct leg legs[SIDES];
	struct relay relays[SIDES]; /* by the side they carry bytes from */
	double accepted_s;
	bool bulk; /* its last turn moved much: others go first */
	struct list wait; /* in the proxy's list of those that wait for the same, */
	int waits_for;    /* which one that is, */
	time_t since_s;   /* and since when (monotonic) */
	struct list turn; /* in the proxy's list of those with more to do */
};

/* What its legs are set to and lent from. */
struct relaying {
	const struct options *options;
	struct pipes *pipes;
	struct answer_tos *answers;
};

/* The leg has bytes or a FIN to send, or its handshake to finish: it waits to be writable. */
bool connection_wants_to_write(const struct connection *connection, enum side side);

/*
 * A connection that a client has opened, and its way to the server begun. NULL when there is no memory. It may be OVER at once,
 * when the server cannot be reached.
 */
struct connection *connection_open(uint64_t id, int client_fd, const union address *client, const union address *server,
				   const struct options *options);

/* Does what can be done now, until it waits for an event. True when it has more to do. */
bool connection_advance(struct connection *connection, const struct relaying *with);

/* Makes it OVER. */
void connection_end(struct connection *connection, const char *outcome);

/* Resets what is not closed. */
void connection_free(struct connection *connection, struct pipes *pipes);

#endif
