// SPDX-License-Identifier: GPL-2.0
/*
 * The forward link of a satellite system in frames (core.h), as the qdisc `dvbs2`: root of the ifb through which the
 * packets to all terminals pass.
 *
 * Which terminal a packet is for says the host's routing table: each is the next hop of its packets. Its class follows
 * from the upper three bits of the DSCP: 7 is NM, 6 SIG, 5 EF, 4 to 2 AF, the others BE. What does not pass over the
 * link does not wait: frames that find out link-layer addresses (ARP, neighbour discovery), frames to several hosts,
 * and packets for this host itself.
 *
 * tc cannot set what a qdisc takes that it does not know, so a link is told to /proc/net/dvbs2 of the host's network
 * namespace, in lines; a write has whole ones:
 *
 *	begin NAME=VALUE …		the values (core.h)
 *	modcod NUMBER BYTES SYMBOLS
 *	terminal NUMBER ADDRESS		IPv4, as a number
 *	change TIME_US TERMINAL KIND VALUE
 *	go				from now on this is the link; what waits in the one before is sent at once
 *
 * Without a link the qdisc drops. There is one qdisc in a namespace.
 *
 * Read, it has what has been done:
 *
 *	strangers N			packets for no terminal
 *	modcod N FRAMES LOST USED HEADERS PADDED
 *					frames, and those that a terminal with a part in them could not receive; bytes
 *	terminal N MODCOD FRAMES LOST USED HEADERS QUEUED
 *					the MODCOD of now (28: nothing is sent); frames with a part for it
 *	class N CLASS PACKETS_IN BYTES_IN PACKETS_OUT BYTES_OUT PACKETS_DROPPED BYTES_DROPPED PACKETS_LOST BYTES_LOST
 *	      PACKETS_QUEUED BYTES_QUEUED MEDIAN_US P95_US
 *					of a terminal; MEDIAN and P95 are delays until the end of the frame
 */

#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/seq_file_net.h>
#include <linux/slab.h>
#include <net/dsfield.h>
#include <net/gso.h>
#include <net/ip_fib.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "core.h"

#define MOST_CLASS 7
#define DIRECT (-1)
#define STRANGER (-2)

static const u8 class_of_precedence[MOST_CLASS + 1] = { 4, 4, 3, 3, 3, 1, 2, 0 };
static const char * const class_names[DVBS2_CLASSES] = { "NM", "EF", "SIG", "AF", "BE" };

struct link {
	struct dvbs2 dvbs2;
	u64 told_changes;
	u64 strangers;
	__be32 *addresses;
	u32 *bins;
};

struct state {
	spinlock_t lock;
	struct link *link;
	struct link *draft;		/* that is being told */
	struct mutex telling;
	struct Qdisc *sch;
	struct sk_buff_head direct;
};

struct place {
	struct qdisc_watchdog watchdog;
};

static unsigned int state_id;
static struct kmem_cache *packets;

static struct state *state_of(const struct net *net)
{
	return net_generic(net, state_id);
}

static struct state *state_of_qdisc(const struct Qdisc *sch)
{
	return state_of(dev_net(qdisc_dev(sch)));
}

static u8 class_of(struct sk_buff *skb)
{
	return class_of_precedence[ipv4_get_dsfield(ip_hdr(skb)) >> 5];
}

static int terminal_of_hop(const struct link *link, __be32 address)
{
	u32 i;

	for (i = 0; i < link->dvbs2.values.terminals; i++)
		if (link->addresses[i] == address)
			return i;
	return STRANGER;
}

/* The next hop of an IPv4 packet's way from here. */
static int terminal_of(const struct link *link, struct net *net, const struct sk_buff *skb)
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
			terminal = terminal_of_hop(link, hop->nhc_gw.ipv4);
		else
			terminal = terminal_of_hop(link, flow.daddr);
	}
	rcu_read_unlock();
	return terminal;
}

/* Where a frame goes: a terminal's number, DIRECT or STRANGER. */
static int way_of(const struct link *link, struct net *net, struct sk_buff *skb)
{
	if (skb->pkt_type == PACKET_BROADCAST || skb->pkt_type == PACKET_MULTICAST)
		return DIRECT;
	switch (skb->protocol) {
	case htons(ETH_P_IP):
		return pskb_network_may_pull(skb, sizeof(struct iphdr)) ? terminal_of(link, net, skb) : STRANGER;
	case htons(ETH_P_IPV6):
		if (pskb_network_may_pull(skb, sizeof(struct ipv6hdr)) && ipv6_hdr(skb)->hop_limit == 255 &&
		    ipv6_hdr(skb)->nexthdr == NEXTHDR_ICMP)
			return DIRECT;
		return STRANGER;
	default:
		return DIRECT;
	}
}

static bool enter(struct link *link, struct sk_buff *skb, u32 terminal, u64 now_ns)
{
	struct dvbs2_packet *packet = kmem_cache_zalloc(packets, GFP_ATOMIC);

	if (!packet)
		return false;
	packet->cookie = skb;
	packet->terminal = terminal;
	packet->class = class_of(skb);
	packet->bytes = max_t(u32, skb->len - skb_network_offset(skb), 1);
	if (dvbs2_arrive(&link->dvbs2, packet, now_ns))
		return true;
	kmem_cache_free(packets, packet);
	return false;
}

static int enqueue_one(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct state *state = state_of_qdisc(sch);
	u64 now_ns = ktime_get_ns();
	bool entered = false;
	int way;

	spin_lock_bh(&state->lock);
	if (state->link) {
		way = way_of(state->link, dev_net(qdisc_dev(sch)), skb);
		if (way == DIRECT) {
			__skb_queue_tail(&state->direct, skb);
			entered = true;
		} else if (way == STRANGER) {
			state->link->strangers++;
		} else {
			dvbs2_advance(&state->link->dvbs2, now_ns, false);
			entered = enter(state->link, skb, way, now_ns);
		}
	}
	spin_unlock_bh(&state->lock);
	if (!entered)
		return qdisc_drop(skb, sch, to_free);
	qdisc_qstats_backlog_inc(sch, skb);
	qdisc_qlen_inc(sch);
	return NET_XMIT_SUCCESS;
}

static int link_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	netdev_features_t features = netif_skb_features(skb);
	struct sk_buff *segments, *next;
	int result = NET_XMIT_DROP;

	if (!skb_is_gso(skb))
		return enqueue_one(skb, sch, to_free);
	segments = skb_gso_segment(skb, features & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segments))
		return qdisc_drop(skb, sch, to_free);
	skb_list_walk_safe(segments, segments, next) {
		skb_mark_not_on_list(segments);
		qdisc_skb_cb(segments)->pkt_len = segments->len;
		if (enqueue_one(segments, sch, to_free) == NET_XMIT_SUCCESS)
			result = NET_XMIT_SUCCESS;
	}
	consume_skb(skb);
	return result;
}

/* What a frame has brought; what it has lost is counted and gone. */
static struct sk_buff *received(struct Qdisc *sch, struct dvbs2 *dvbs2)
{
	struct dvbs2_packet *packet;

	while ((packet = dvbs2_leave(dvbs2))) {
		struct sk_buff *skb = packet->cookie;
		bool is_lost = packet->lost;

		kmem_cache_free(packets, packet);
		if (!is_lost)
			return skb;
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_qlen_dec(sch);
		kfree_skb(skb);
	}
	return NULL;
}

static struct sk_buff *link_dequeue(struct Qdisc *sch)
{
	struct state *state = state_of_qdisc(sch);
	struct place *place = qdisc_priv(sch);
	u64 now_ns = ktime_get_ns(), wake_ns = U64_MAX;
	struct sk_buff *skb;

	spin_lock_bh(&state->lock);
	skb = __skb_dequeue(&state->direct);
	if (!skb && state->link) {
		dvbs2_advance(&state->link->dvbs2, now_ns, true);
		skb = received(sch, &state->link->dvbs2);
		if (!skb)
			wake_ns = dvbs2_next_ns(&state->link->dvbs2);
	}
	spin_unlock_bh(&state->lock);
	if (skb) {
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_qlen_dec(sch);
		qdisc_bstats_update(sch, skb);
	} else if (wake_ns != U64_MAX) {
		qdisc_watchdog_schedule_ns(&place->watchdog, wake_ns);
	}
	return skb;
}

static int link_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct state *state = state_of_qdisc(sch);
	struct place *place = qdisc_priv(sch);
	int error = 0;

	qdisc_watchdog_init(&place->watchdog, sch);
	spin_lock_bh(&state->lock);
	if (state->sch)
		error = -EBUSY;
	else
		state->sch = sch;
	spin_unlock_bh(&state->lock);
	if (error)
		NL_SET_ERR_MSG(extack, "there is a qdisc dvbs2 in this network namespace");
	return error;
}

static void empty(struct state *state)
{
	struct dvbs2_packet *packet;

	__skb_queue_purge(&state->direct);
	while (state->link && (packet = dvbs2_take(&state->link->dvbs2))) {
		kfree_skb(packet->cookie);
		kmem_cache_free(packets, packet);
	}
}

static void link_reset(struct Qdisc *sch)
{
	struct state *state = state_of_qdisc(sch);
	struct place *place = qdisc_priv(sch);

	qdisc_watchdog_cancel(&place->watchdog);
	spin_lock_bh(&state->lock);
	if (state->sch == sch)
		empty(state);
	spin_unlock_bh(&state->lock);
}

static void free_link(struct link *link)
{
	if (!link)
		return;
	kvfree(link->addresses);
	kvfree(link->dvbs2.terminals);
	kvfree(link->dvbs2.changes);
	kvfree(link->bins);
	kvfree(link);
}

static void link_destroy(struct Qdisc *sch)
{
	struct state *state = state_of_qdisc(sch);
	struct place *place = qdisc_priv(sch);
	struct link *link = NULL;

	qdisc_watchdog_cancel(&place->watchdog);
	spin_lock_bh(&state->lock);
	if (state->sch == sch) {
		empty(state);
		link = state->link;
		state->link = NULL;
		state->sch = NULL;
	}
	spin_unlock_bh(&state->lock);
	free_link(link);
}

static struct Qdisc_ops link_ops __read_mostly = {
	.id		= "dvbs2",
	.priv_size	= sizeof(struct place),
	.enqueue	= link_enqueue,
	.dequeue	= link_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= link_init,
	.reset		= link_reset,
	.destroy	= link_destroy,
	.owner		= THIS_MODULE,
};

/* What is told */

static int draft_begins(struct state *state, char *text)
{
	struct dvbs2_values values = {};
	struct link *link;
	char *word;

	while ((word = strsep(&text, " "))) {
		char *number = strchr(word, '=');
		u64 *value;

		if (!number)
			return -EINVAL;
		*number++ = '\0';
		value = dvbs2_value(&values, word);
		if (!value || kstrtou64(number, 10, value))
			return -EINVAL;
	}
	if (dvbs2_check_values(&values))
		return -EDOM;
	link = kvzalloc(sizeof(*link), GFP_KERNEL);
	if (!link)
		return -ENOMEM;
	link->dvbs2.values = values;
	link->addresses = kvcalloc(values.terminals, sizeof(*link->addresses), GFP_KERNEL);
	link->dvbs2.terminals = kvcalloc(values.terminals, sizeof(*link->dvbs2.terminals), GFP_KERNEL);
	link->dvbs2.changes = kvcalloc(values.changes + 1, sizeof(*link->dvbs2.changes), GFP_KERNEL);
	link->bins = kvcalloc(values.terminals * DVBS2_CLASSES * DVBS2_BINS, sizeof(*link->bins), GFP_KERNEL);
	free_link(state->draft);
	state->draft = link;
	if (link->addresses && link->dvbs2.terminals && link->dvbs2.changes && link->bins)
		return 0;
	free_link(link);
	state->draft = NULL;
	return -ENOMEM;
}

static int draft_gets(struct link *draft, const char *line)
{
	struct dvbs2 *dvbs2 = &draft->dvbs2;
	u32 number, one, two;
	u64 time_us;

	if (sscanf(line, "modcod %u %u %u", &number, &one, &two) == 3 && number < DVBS2_MODCODS) {
		dvbs2->modcods[number].bytes = one;
		dvbs2->modcods[number].symbols = two;
		return 0;
	}
	if (sscanf(line, "terminal %u %u", &number, &one) == 2 && number < dvbs2->values.terminals) {
		draft->addresses[number] = htonl(one);
		return 0;
	}
	if (sscanf(line, "change %llu %u %u %u", &time_us, &number, &one, &two) == 4 &&
	    draft->told_changes < dvbs2->values.changes) {
		struct dvbs2_change *change = &dvbs2->changes[draft->told_changes++];

		change->time_us = time_us;
		change->terminal = number;
		change->kind = one;
		change->value = two;
		return 0;
	}
	return -EINVAL;
}

/* What waits in a link that ends. */
static void send_at_once(struct state *state, struct link *link)
{
	struct dvbs2_packet *packet;

	while (link && (packet = dvbs2_take(&link->dvbs2))) {
		__skb_queue_tail(&state->direct, packet->cookie);
		kmem_cache_free(packets, packet);
	}
	if (!skb_queue_empty(&state->direct))
		__netif_schedule(state->sch);
}

static int draft_goes(struct state *state)
{
	struct link *link = state->draft, *old = NULL;
	int error = 0;

	if (link->told_changes != link->dvbs2.values.changes || dvbs2_check(&link->dvbs2))
		return -EDOM;
	spin_lock_bh(&state->lock);
	if (state->sch) {
		dvbs2_start(&link->dvbs2, link->bins, ktime_get_ns());
		old = state->link;
		state->link = link;
		state->draft = NULL;
		send_at_once(state, old);
	} else {
		error = -ENODEV;
	}
	spin_unlock_bh(&state->lock);
	free_link(old);
	return error;
}

static int told(struct state *state, char *line)
{
	if (!strncmp(line, "begin ", 6))
		return draft_begins(state, line + 6);
	if (!state->draft)
		return -EINVAL;
	if (!strcmp(line, "go"))
		return draft_goes(state);
	return draft_gets(state->draft, line);
}

static int link_write(struct file *file, char *text, size_t size)
{
	struct seq_file *seq = file->private_data;
	struct state *state = state_of(seq_file_single_net(seq));
	int error = 0;
	char *line;

	text = strim(text);
	mutex_lock(&state->telling);
	while (!error && (line = strsep(&text, "\n")))
		error = told(state, line);
	mutex_unlock(&state->telling);
	return error;
}

/* What is shown */

static void show_class(struct seq_file *file, u32 number, u32 of, const struct dvbs2_class *one)
{
	seq_printf(file, "class %u %s %llu %llu %llu %llu %llu %llu", number, class_names[of], one->in.packets,
		   one->in.bytes, one->out.packets, one->out.bytes, one->dropped.packets, one->dropped.bytes);
	seq_printf(file, " %llu %llu %llu %llu %llu %llu\n", one->lost.packets, one->lost.bytes, one->queued.packets,
		   one->queued.bytes, dvbs2_delay_us(one, 50), dvbs2_delay_us(one, 95));
}

static void show_terminal(struct seq_file *file, u32 number, const struct dvbs2_terminal *one)
{
	u32 c;

	seq_printf(file, "terminal %u %u %llu %llu %llu %llu %llu\n", number, one->modcod, one->frames,
		   one->lost_frames, one->used_bytes, one->header_bytes, dvbs2_queued_bytes(one));
	for (c = 0; c < DVBS2_CLASSES; c++)
		if (one->classes[c].in.packets)
			show_class(file, number, c, &one->classes[c]);
}

static int link_show(struct seq_file *file, void *unused)
{
	struct state *state = state_of(seq_file_single_net(file));
	u32 i;

	spin_lock_bh(&state->lock);
	if (state->link) {
		struct dvbs2 *dvbs2 = &state->link->dvbs2;

		dvbs2_advance(dvbs2, ktime_get_ns(), false);
		seq_printf(file, "strangers %llu\n", state->link->strangers);
		for (i = 0; i < DVBS2_MODCODS; i++) {
			const struct dvbs2_modcod *one = &dvbs2->modcods[i];

			if (one->frames)
				seq_printf(file, "modcod %u %llu %llu %llu %llu %llu\n", i, one->frames, one->lost_frames,
					   one->used_bytes, one->header_bytes, one->padded_bytes);
		}
		for (i = 0; i < dvbs2->values.terminals; i++)
			show_terminal(file, i, &dvbs2->terminals[i]);
	}
	spin_unlock_bh(&state->lock);
	return 0;
}

static int __net_init link_net_init(struct net *net)
{
	struct state *state = state_of(net);

	spin_lock_init(&state->lock);
	mutex_init(&state->telling);
	__skb_queue_head_init(&state->direct);
	if (!proc_create_net_single_write("dvbs2", 0600, net->proc_net, link_show, link_write, NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit link_net_exit(struct net *net)
{
	struct state *state = state_of(net);

	remove_proc_entry("dvbs2", net->proc_net);
	free_link(state->draft);
}

static struct pernet_operations link_net_ops = {
	.init	= link_net_init,
	.exit	= link_net_exit,
	.id	= &state_id,
	.size	= sizeof(struct state),
};

static int __init link_register(void)
{
	int error = -ENOMEM;

	packets = KMEM_CACHE(dvbs2_packet, 0);
	if (!packets)
		return error;
	error = register_pernet_subsys(&link_net_ops);
	if (error)
		goto no_cache;
	error = register_qdisc(&link_ops);
	if (!error)
		return 0;
	unregister_pernet_subsys(&link_net_ops);
no_cache:
	kmem_cache_destroy(packets);
	return error;
}

static void __exit link_unregister(void)
{
	unregister_qdisc(&link_ops);
	unregister_pernet_subsys(&link_net_ops);
	kmem_cache_destroy(packets);
}

module_init(link_register);
module_exit(link_unregister);
MODULE_DESCRIPTION("A forward link in DVB-S2 frames, for User Mode Linux in virtual time");
MODULE_LICENSE("GPL");
