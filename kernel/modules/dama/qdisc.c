// SPDX-License-Identifier: GPL-2.0
/*
 * The return link of a satellite system, whose capacity is assigned on demand (core.h), as the
 * qdisc `dama`: root of the ifb through which the packets of all terminals pass.
 *
 * A frame's source address says which terminal it comes from: they are numbered as they come.
 *
 * The values are written to /proc/net/dama as NAME=VALUE NAME=VALUE … (core.h) in one line: from
 * then on there is a link, which is new; packets that wait in the one before are sent at once. Of
 * the link that is there, the line
 *
 *	terminal N address=NUMBER cra_bps=… rbdc_bps=… vbdc_bytes=… weight=…
 *
 * says which link-layer address a terminal has, and what it has and may ask for, and
 *
 *	wish N BPS
 *
 * that a proxy beside the terminal wants it to ask for so much; 0: no longer.
 *
 * Read, it has what has been done (link_qdisc.c), and:
 *
 *	superframes N			since the link began
 *	most_slots N			that were granted in one superframe
 *	terminal N GRANTED USED BYTES HEADERS PADDED QUEUED REQUESTS COLLISIONS
 *					slots granted and used; bytes of packets, of headers and of
 *					padding in the used ones, and in the queues
 *	simulated GRANTED …		the same, of all simulated terminals together
 */

#include <linux/etherdevice.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "link_qdisc.h"

#define MOST_BPS 1000000000ULL

int terminal_of(struct link *link, struct net *net, struct sk_buff *skb)
{
	u64 address;
	int terminal;

	if (finds_addresses(skb))
		return DIRECT;
	if (!link)
		return STRANGER;
	address = ether_addr_to_u64(eth_hdr(skb)->h_source);
	terminal = terminal_with(link, address);
	if (terminal != STRANGER || link->known == link->values.terminals)
		return terminal;
	link->addresses[link->known] = address;
	return link->known++;
}

void free_arrays(struct link *link)
{
	kvfree(link->requests);
}

static int begin_with(struct state *state, const struct dama_values *values)
{
	size_t all = values->terminals + values->simulated, real = values->terminals;
	struct link *link = kvzalloc(sizeof(*link), GFP_KERNEL);
	int error = -ENOMEM;

	if (!link)
		return error;
	link->values = *values;
	link->addresses = kvcalloc(real, sizeof(*link->addresses), GFP_KERNEL);
	link->terminals = kvcalloc(all, sizeof(*link->terminals), GFP_KERNEL);
	link->requests = kvcalloc(all * DAMA_RING, sizeof(*link->requests), GFP_KERNEL);
	link->bins = kvcalloc(real * LINK_CLASSES * LINK_BINS, sizeof(*link->bins), GFP_KERNEL);
	if (link->addresses && link->terminals && link->requests && link->bins)
		error = begin(state, link);
	if (error)
		free_link(link);
	return error;
}

/* Terminals are numbered as they come, so an address is given to the next number, or to one that has it. */
static int know(struct link *link, u32 number, u64 address)
{
	if (number < link->known)
		return link->addresses[number] == address ? 0 : -EEXIST;
	if (number > link->known || number >= link->values.terminals)
		return -EINVAL;
	link->addresses[link->known++] = address;
	return 0;
}

static int give(struct link *link, u32 number, char *text)
{
	struct dama_share share;
	u64 address = 0;
	char *word;
	int error;

	if (number >= link->values.terminals)
		return -EINVAL;
	share = link->terminals[number].share;
	while (text && (word = strsep(&text, " "))) {
		if (str_has_prefix(word, "address="))
			error = kstrtou64(word + strlen("address="), 10, &address);
		else
			error = read_numbers(word, dama_share_names, &share);
		if (error)
			return -EINVAL;
	}
	error = address ? know(link, number, address) : 0;
	return error ? error : dama_give(link, number, &share) ? -EDOM : 0;
}

static int wish(struct link *link, u32 number, const char *text)
{
	u64 rate_bps;

	if (number >= link->values.terminals || !text || kstrtou64(text, 10, &rate_bps))
		return -EINVAL;
	if (rate_bps > MOST_BPS)
		return -EDOM;
	dama_wish(link, number, rate_bps);
	return 0;
}

static int change_terminal(struct state *state, bool is_wish, char *text)
{
	char *word = strsep(&text, " ");
	u32 number;
	int error = -ENOLINK;

	if (!word || kstrtou32(word, 10, &number))
		return -EINVAL;
	spin_lock_bh(&state->lock);
	if (state->link) {
		link_advance(state->link, ktime_get_ns(), false);
		error = is_wish ? wish(state->link, number, text) : give(state->link, number, text);
	}
	spin_unlock_bh(&state->lock);
	return error;
}

int told(struct state *state, char *text)
{
	struct dama_values values = {};
	int error;

	if (str_has_prefix(text, "terminal "))
		return change_terminal(state, false, text + strlen("terminal "));
	if (str_has_prefix(text, "wish "))
		return change_terminal(state, true, text + strlen("wish "));
	error = read_numbers(text, dama_value_names, &values);
	if (error)
		return error;
	return dama_check(&values) ? -EDOM : begin_with(state, &values);
}

static void show_terminal(struct seq_file *file, const struct dama_terminal *one, u64 queued_bytes)
{
	seq_printf(file, " %llu %llu %llu %llu %llu %llu %llu %llu\n", one->granted_slots, one->used_slots,
		   one->used_bytes, one->header_bytes, one->padded_bytes, queued_bytes, one->request_count,
		   one->collisions);
}

static void show_simulated(struct seq_file *file, const struct link *link)
{
	struct dama_terminal sum = {};
	u64 queued_bytes = 0;
	u32 i;

	for (i = link->values.terminals; i < link->count; i++) {
		const struct dama_terminal *one = &link->terminals[i];

		sum.granted_slots += one->granted_slots;
		sum.used_slots += one->used_slots;
		sum.used_bytes += one->used_bytes;
		sum.header_bytes += one->header_bytes;
		sum.padded_bytes += one->padded_bytes;
		sum.request_count += one->request_count;
		sum.collisions += one->collisions;
		queued_bytes += link_queued_bytes(one->classes);
	}
	seq_puts(file, "simulated");
	show_terminal(file, &sum, queued_bytes);
}

void show(struct seq_file *file, struct link *link)
{
	u32 i;

	seq_printf(file, "superframes %llu\nmost_slots %llu\n", link->superframe, link->most_granted);
	for (i = 0; i < link->values.terminals; i++) {
		struct dama_terminal *one = &link->terminals[i];

		seq_printf(file, "terminal %u", i);
		show_terminal(file, one, link_queued_bytes(one->classes));
		show_classes(file, i, one->classes);
	}
	if (link->values.simulated)
		show_simulated(file, link);
}

MODULE_DESCRIPTION("A return link whose capacity is assigned on demand, for User Mode Linux in virtual time");
MODULE_LICENSE("GPL");
