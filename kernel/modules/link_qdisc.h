/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A satellite's link as a qdisc: what those of the return link (dama) and of the forward link in
 * frames (dvbs2) share. Each has this file and link_qdisc.c as symbolic links.
 */
#ifndef LINK_QDISC_H
#define LINK_QDISC_H

#include <linux/seq_file.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "core.h"

#define DIRECT (-1)	/* in place of a terminal: the packet does not pass over the link, */
#define STRANGER (-2)	/* or is of none of its terminals */

/* Of a network namespace. */
struct state {
	spinlock_t lock;
	struct link *link;
	struct link *draft;		/* that is being told, where this takes several lines */
	struct mutex telling;
	struct Qdisc *sch;
	struct sk_buff_head direct;
};

/* In qdisc.c of each module: */

/* The terminal whose packet it is, DIRECT or STRANGER; `link` may be NULL. Under the lock. */
int terminal_of(struct link *link, struct net *net, struct sk_buff *skb);

/* Takes what is written to /proc/net/NAME. */
int told(struct state *state, char *text);

/* Shows what has been done, behind what all links show. Under the lock. */
void show(struct seq_file *file, struct link *link);

/* Those of a link that only this module has. */
void free_arrays(struct link *link);

/* In link_qdisc.c: */

/* Frames that find out link-layer addresses (ARP, neighbour discovery): a satellite link has none. */
bool finds_addresses(struct sk_buff *skb);

/* The terminal that has this address, or STRANGER. */
int terminal_with(const struct link *link, u64 address);

/* Sets numbers from a text NAME=VALUE NAME=VALUE … */
int read_numbers(char *text, const struct link_name *known, void *values);

void free_link(struct link *link);

/* From now on this is the link; what waits in the one before is sent at once. */
int begin(struct state *state, struct link *link);

void show_classes(struct seq_file *file, u32 number, const struct link_class *classes);

#endif
