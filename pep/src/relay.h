/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One direction of a connection: bytes from one leg to the other, through a pipe and without a copy (splice). */
#ifndef SATPEP_RELAY_H
#define SATPEP_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "leg.h"

/*
 * Pipes are lent to relays that hold bytes, and come back when these are gone: idle connections have none. A relay that gets none
 * copies, from socket to socket.
 */
struct pipes {
	int (*spare)[2];
	int spares;
	int made, most;
	int bytes;
};

struct relay {
	int pipe[2]; /* -1 when it holds nothing */
	int held_bytes;
	uint64_t bytes, copied_bytes; /* all, and those among them that no pipe was left for */
	int error;   /* errno of the leg that has failed */
	bool ended;  /* the sender has sent its FIN, and all before it was read */
	bool broken; /* or it was reset, likewise */
	bool closed; /* the receiver has got its FIN */
};

enum relayed {
	RELAY_WAITS,   /* for an event on one of the legs */
	RELAY_GOES_ON, /* there is more, but others have a turn */
	RELAY_FROM_FAILED,
	RELAY_TO_FAILED,
};

/* Room for as many pipes as `most`. false: no memory. */
bool pipes_init(struct pipes *pipes, int most, int bytes);
void pipes_free(struct pipes *pipes);

void relay_init(struct relay *relay);

/* Moves what can be moved now, one turn's worth at most, and passes the FIN on after the last byte. */
enum relayed relay_run(struct relay *relay, struct pipes *pipes, struct leg *from, struct leg *to);

/* Gives the pipe back; what it holds is lost. */
void relay_end(struct relay *relay, struct pipes *pipes);

#endif
