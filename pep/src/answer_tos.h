/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The type of service that servers answer with. Linux tells a program that of a SYN that came, not of the SYN-ACK that came back:
 * a packet socket with a filter in the kernel shows the SYN-ACKs that have one, and no other packet.
 */
#ifndef SATPEP_ANSWER_TOS_H
#define SATPEP_ANSWER_TOS_H

#include "leg.h"

enum { ANSWERS = 1024 };

struct answer_tos {
	int fds[2]; /* IPv4, IPv6; -1: none */
	struct answer {
		union address client, server;
		int tos;
	} answers[ANSWERS]; /* the latest, by a hash of the ports */
};

/* Before privileges are dropped: it needs CAP_NET_RAW. Without it stderr is told that servers' DSCP is not copied. */
void answer_tos_open(struct answer_tos *answers);
void answer_tos_close(struct answer_tos *answers);

/* Without ECN's bits; 0 if it has none, or it is not known any more. */
int answer_tos_of(struct answer_tos *answers, const union address *client, const union address *server);

#endif
