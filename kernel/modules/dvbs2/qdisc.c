// SPDX-License-Identifier: GPL-2.0
/*
 * The forward link of a satellite system in frames (core.h), as the qdisc `dvbs2`: root of the ifb through which the
 * packets to all terminals pass.
 *
 * Which terminal a packet is for says the host's routing table: each is the next hop of its packets. Frames to several
 * hosts and packets for this host itself do not pass over the link.
 *
 * A link is told to /proc/net/dvbs2 in lines; a write has whole ones:
 *
 *	begin NAME=VALUE …		the values (core.h)
 *	modcod NUMBER BYTES SYMBOLS
 *	terminal NUMBER ADDRESS		IPv4, as a number
 *	change TIME_US TERMINAL KIND VALUE
 *	go				from now on this is the link; what waits in the one before is sent at once
 *
 * Read, it has what has been done (link_qdisc.c), and:
 *
 *	modcod N FRAMES LOST USED HEADERS PADDED
 *					frames, and those that a terminal with a part in them could not receive; bytes
 *	terminal N MODCOD FRAMES LOST USED HEADERS QUEUED
 *					the MODCOD of now (28: nothing is sent); frames with a part for it
 */

#include <linux/mm.h>
#include <linux/module.h>
#include <net/ip_fib.h>

#include "link_qdisc.h"

/* The next hop of an IPv4 packet's way from here. */
static int next_hop(const struct link *link, struct net *net, const struct sk_buff *skb)
{
	struct flowi4 flow = { .daddr = ip_hdr(skb)->daddr };
	struct fib_result found;
	int terminal = STRANGER;

	rcu_read_lock();
	if (!fib_lookup(net, &flow, &found, FIB_LOOKUP_NOREF)) {
		const struct fib_nh_common *hop = found.nhc;

		if (found.type != RTN_UNICAST)
			terminal = DIRECT;
		else if (hop->nhc_gw_family == AF_INET)
			terminal = terminal_with(link, ntohl(hop->nhc_gw.ipv4));
		else
			terminal = terminal_with(link, ntohl(flow.daddr));
	}
	rcu_read_unlock();
	return terminal;
}

int terminal_of(struct link *link, struct net *net, struct sk_buff *skb)
{
	if (!link)
		return STRANGER;
	if (skb->pkt_type == PACKET_BROADCAST || skb->pkt_type == PACKET_MULTICAST || finds_addresses(skb))
		return DIRECT;
	if (skb->protocol != htons(ETH_P_IP) || !pskb_network_may_pull(skb, sizeof(struct iphdr)))
		return STRANGER;
	return next_hop(link, net, skb);
}

void free_arrays(struct link *link)
{
	kvfree(link->changes);
}

/* What is told */

static int draft_begins(struct state *state, char *text)
{
	struct dvbs2_values values = {};
	struct link *link;
	int error = read_numbers(text, dvbs2_value_names, &values);

	if (error)
		return error;
	if (dvbs2_check_values(&values))
		return -EDOM;
	link = kvzalloc(sizeof(*link), GFP_KERNEL);
	if (!link)
		return -ENOMEM;
	link->values = values;
	link->known = values.terminals;
	link->addresses = kvcalloc(values.terminals, sizeof(*link->addresses), GFP_KERNEL);
	link->terminals = kvcalloc(values.terminals, sizeof(*link->terminals), GFP_KERNEL);
	link->changes = kvcalloc(values.changes + 1, sizeof(*link->changes), GFP_KERNEL);
	link->bins = kvcalloc(values.terminals * LINK_CLASSES * LINK_BINS, sizeof(*link->bins), GFP_KERNEL);
	free_link(state->draft);
	state->draft = link;
	if (link->addresses && link->terminals && link->changes && link->bins)
		return 0;
	free_link(link);
	state->draft = NULL;
	return -ENOMEM;
}

static int draft_gets(struct link *draft, const char *line)
{
	u32 number, one, two;
	u64 time_us;

	if (sscanf(line, "modcod %u %u %u", &number, &one, &two) == 3 && number < DVBS2_MODCODS) {
		draft->modcods[number].bytes = one;
		draft->modcods[number].symbols = two;
		return 0;
	}
	if (sscanf(line, "terminal %u %u", &number, &one) == 2 && number < draft->values.terminals) {
		draft->addresses[number] = one;
		return 0;
	}
	if (sscanf(line, "change %llu %u %u %u", &time_us, &number, &one, &two) == 4 &&
	    draft->told_changes < draft->values.changes) {
		struct dvbs2_change *change = &draft->changes[draft->told_changes++];

		change->time_us = time_us;
		change->terminal = number;
		change->kind = one;
		change->value = two;
		return 0;
	}
	return -EINVAL;
}

static int draft_goes(struct state *state)
{
	int error;

	if (state->draft->told_changes != state->draft->values.changes || dvbs2_check(state->draft))
		return -EDOM;
	error = begin(state, state->draft);
	if (!error)
		state->draft = NULL;
	return error;
}

static int draft_told(struct state *state, char *line)
{
	if (!strncmp(line, "begin ", 6))
		return draft_begins(state, line + 6);
	if (!state->draft)
		return -EINVAL;
	if (!strcmp(line, "go"))
		return draft_goes(state);
	return draft_gets(state->draft, line);
}

int told(struct state *state, char *text)
{
	int error = 0;
	char *line;

	while (!error && (line = strsep(&text, "\n")))
		error = draft_told(state, line);
	return error;
}

void show(struct seq_file *file, struct link *link)
{
	u32 i;

	for (i = 0; i < DVBS2_MODCODS; i++) {
		const struct dvbs2_modcod *one = &link->modcods[i];

		if (one->frames)
			seq_printf(file, "modcod %u %llu %llu %llu %llu %llu\n", i, one->frames, one->lost_frames,
				   one->used_bytes, one->header_bytes, one->padded_bytes);
	}
	for (i = 0; i < link->values.terminals; i++) {
		const struct dvbs2_terminal *one = &link->terminals[i];

		seq_printf(file, "terminal %u %u %llu %llu %llu %llu %llu\n", i, one->modcod, one->frames,
			   one->lost_frames, one->used_bytes, one->header_bytes, link_queued_bytes(one->classes));
		show_classes(file, i, one->classes);
	}
}

MODULE_DESCRIPTION("A forward link in DVB-S2 frames, for User Mode Linux in virtual time");
MODULE_LICENSE("GPL");
