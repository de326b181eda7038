/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One leg of a split connection: a TCP socket, how it is set, and what the kernel says of it. */
#ifndef SATPEP_LEG_H
#define SATPEP_LEG_H

#include <netinet/in.h>
#include <stdbool.h>

#include "log.h"
#include "options.h"

/* An IPv4 or IPv6 address with its port. */
union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* `readable` and `writable` hold until a call says otherwise (the events come on edges). */
struct leg {
	int fd;
	enum side side;
	bool readable, writable, failed;
	bool urgent;	    /* a byte marked as urgent has come */
	bool watches_write; /* an event tells when it is writable */
};

socklen_t address_bytes(const union address *address);
in_port_t *address_port(union address *address); /* in network order */

/* "192.0.2.1:80" or "[2001:db8::1]:80" */
enum { ADDRESS_TEXT_BYTES = 64 };
const char *address_text(const union address *address, char text[ADDRESS_TEXT_BYTES]);

/*
 * A socket that is set, transparent and bound to `port` (0: any), for TPROXY to hand connections to once it listens. Accepted
 * sockets inherit its congestion control, buffers and MSS: so the client's leg has them from its first packet on. -1 with a
 * message on stderr.
 */
int leg_bind(int family, uint16_t port, const struct leg_options *options);

/* The type of service that an accepted client's SYN had, without ECN's bits; 0 as well if the kernel has kept no SYN. Once only. */
int leg_syn_tos(const struct leg *leg);

/* Gives what it sends this type of service. */
void leg_set_tos(const struct leg *leg, int tos);

/* A connection to the server: where from, and as what. */
struct leg_target {
	const union address *client, *server;
	int tos;
	bool has_data; /* the client has sent some: with fast open the first packet waits for data, and a server may be the one to speak first */
};

/*
 * Begins the leg towards the server, from the client's own address and, if it is free here, port. -1 and errno.
 */
int leg_connect(const struct leg_target *target, const struct leg_options *options);

/* Whether the address is one of this host. */
bool address_is_local(const union address *address);

/* Closes it: with a reset instead of a FIN unless leg_is_closed(); what was not sent yet is lost. */
void leg_reset(struct leg *leg);

/* The error it has failed with (errno), which is taken from it. */
int leg_error(const struct leg *leg);

/* The next byte to be read is the one marked as urgent. */
bool leg_is_at_urgent_byte(const struct leg *leg);

/* The kernel is done with it: both FINs acknowledged, or reset. */
bool leg_is_closed(const struct leg *leg);

/* Bytes that wait to be read. */
int leg_received_bytes(const struct leg *leg);

/* Bytes that wait to be sent for the first time. */
int leg_unsent_bytes(const struct leg *leg);

/* Quick acknowledgements, which the kernel takes for over after a while: to be said again after each read. */
void leg_acknowledge_at_once(const struct leg *leg);

/* Has `writable` come back only when everything was sent once. */
void leg_wait_until_sent(const struct leg *leg);

/* A JSON object: congestion control, MSS, RTT, window, retransmissions (tcp_info, as `ss -ti` shows it). */
void leg_describe(const struct leg *leg, struct log *log);

#endif
