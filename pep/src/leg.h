/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One leg of a split connection: a TCP socket, how it is set, and what the kernel says of it. */
#ifndef SATPEP_LEG_H
#define SATPEP_LEG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>

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
};

socklen_t address_bytes(const union address *address);

/* "192.0.2.1:80" or "[2001:db8::1]:80" */
enum { ADDRESS_TEXT_BYTES = 64 };
const char *address_text(const union address *address, char text[ADDRESS_TEXT_BYTES]);

/*
 * The socket that TPROXY hands connections to. Accepted sockets inherit its congestion control, buffers and MSS: so the
 * client's leg has them from its first packet on. -1 with a message on stderr.
 */
int leg_listen(int family, uint16_t port, const struct leg_options *options);

/*
 * Begins the leg towards the server, from the client's own address and, if it is free here, port. -1 and errno. With fast open the first packet waits for
 * data, so it is used only where the client has sent some (`has_data`): a server may be the one to speak first.
 */
int leg_connect(const union address *client, const union address *server, const struct leg_options *options, bool has_data);

/* Whether the address is one of this host. */
bool address_is_local(const union address *address);

/* Closes it with a reset instead of a FIN; what was not sent yet is lost. */
void leg_reset(struct leg *leg);

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
void leg_describe(const struct leg *leg, FILE *out);

#endif
