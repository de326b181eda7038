// SPDX-License-Identifier: GPL-2.0
/*
 * A satellite's link as a qdisc (link_qdisc.h): root of the ifb through which its packets pass.
 *
 * A packet's class follows from the upper three bits of the DSCP: 7 is NM, 6 SIG, 5 EF, 4 to 2 AF,
 * the others BE. What does not pass over the link does not wait. Without a link the qdisc drops.
 * There is one qdisc of a kind in a namespace.
 *
 * tc cannot set what a qdisc takes that it does not know, so it is written to /proc/net/NAME of the
 * host's network namespace. Read, that has what has been done; of all links these lines:
 *
 *	strangers N			packets of no terminal of the link
 *	class N CLASS PACKETS_IN BYTES_IN PACKETS_OUT BYTES_OUT PACKETS_DROPPED BYTES_DROPPED
 *	      PACKETS_LOST BYTES_LOST PACKETS_QUEUED BYTES_QUEUED MEDIAN_US P95_US
 *					of a terminal; MEDIAN and P95 are delays until the packet leaves
 */

#include <linux/module.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/seq_file_net.h>
#include <linux/slab.h>
#include <net/dsfield.h>
#include <net/gso.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>

#include "link_qdisc.h"

#define MOST_CLASS 7

static const u8 class_of_precedence[MOST_CLASS + 1] = { 4, 4, 3, 3, 3, 1, 2, 0 };
static const char * const class_names[LINK_CLASSES] = { "NM", "EF", "SIG", "AF", "BE" };

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

bool finds_addresses(struct sk_buff *skb)
{
	switch (skb->protocol) {
	case htons(ETH_P_IP):
		return false;
	case htons(ETH_P_IPV6):
		return pskb_network_may_pull(skb, sizeof(struct ipv6hdr)) && ipv6_hdr(skb)->hop_limit == 255 &&
		       ipv6_hdr(skb)->nexthdr == NEXTHDR_ICMP;
	default:
		return true;
	}
}

static u8 class_of(struct sk_buff *skb)
{
	u8 field = 0;

	if (skb->protocol == htons(ETH_P_IP) && pskb_network_may_pull(skb, sizeof(struct iphdr)))
		field = ipv4_get_dsfield(ip_hdr(skb));
	else if (skb->protocol == htons(ETH_P_IPV6) && pskb_network_may_pull(skb, sizeof(struct ipv6hdr)))
		field = ipv6_get_dsfield(ipv6_hdr(skb));
	return class_of_precedence[field >> 5];
}

int terminal_with(const struct link *link, u64 address)
{
	u32 i;

	for (i = 0; i < link->known; i++)
		if (link->addresses[i] == address)
			return i;
	return STRANGER;
}

static bool enter(struct link *link, struct sk_buff *skb, u32 terminal, u64 now_ns)
{
	struct link_packet *packet = kmem_cache_zalloc(packets, GFP_ATOMIC);

	if (!packet)
		return false;
	packet->cookie = skb;
	packet->terminal = terminal;
	packet->class = class_of(skb);
	packet->bytes = max_t(u32, skb->len - skb_network_offset(skb), 1);
	if (link_arrive(link, packet, now_ns))
		return true;
	kmem_cache_free(packets, packet);
	return false;
}

static int enqueue_one(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct state *state = state_of_qdisc(sch);
	u64 now_ns = ktime_get_ns();
	bool entered = false;
	int terminal;

	spin_lock_bh(&state->lock);
	terminal = terminal_of(state->link, dev_net(qdisc_dev(sch)), skb);
	if (terminal == DIRECT) {
		__skb_queue_tail(&state->direct, skb);
		entered = true;
	} else if (state->link && terminal == STRANGER) {
		state->link->strangers++;
	} else if (state->link) {
		link_advance(state->link, now_ns, false);
		entered = enter(state->link, skb, terminal, now_ns);
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

/* What the link has brought; what it has lost is counted and gone. */
static struct sk_buff *received(struct Qdisc *sch, struct link *link, u64 now_ns)
{
	struct link_packet *packet;

	while ((packet = left_by(&link->leaving, now_ns))) {
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
	u64 now_ns = ktime_get_ns(), wake_ns = NONE;
	struct sk_buff *skb;

	spin_lock_bh(&state->lock);
	skb = __skb_dequeue(&state->direct);
	if (!skb && state->link) {
		link_advance(state->link, now_ns, true);
		skb = received(sch, state->link, now_ns);
		if (!skb)
			wake_ns = link_next_ns(state->link);
	}
	spin_unlock_bh(&state->lock);
	if (skb) {
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_qlen_dec(sch);
		qdisc_bstats_update(sch, skb);
	} else if (wake_ns != NONE) {
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
		NL_SET_ERR_MSG(extack, "there is a qdisc " KBUILD_MODNAME " in this network namespace");
	return error;
}

static void empty(struct state *state)
{
	struct link_packet *packet;

	__skb_queue_purge(&state->direct);
	while (state->link && (packet = link_take(state->link))) {
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

void free_link(struct link *link)
{
	if (!link)
		return;
	free_arrays(link);
	kvfree(link->addresses);
	kvfree(link->terminals);
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
	.id		= KBUILD_MODNAME,
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

int read_numbers(char *text, const struct link_name *known, void *values)
{
	char *word;

	while ((word = strsep(&text, " "))) {
		char *number = strchr(word, '=');
		u64 *value;

		if (!number)
			return -EINVAL;
		*number++ = '\0';
		value = link_number(known, values, word);
		if (!value || kstrtou64(number, 10, value))
			return -EINVAL;
	}
	return 0;
}

int begin(struct state *state, struct link *link)
{
	struct link *old = NULL;
	struct link_packet *packet;
	int error = -ENODEV;

	spin_lock_bh(&state->lock);
	if (state->sch) {
		error = 0;
		link_start(link, ktime_get_ns());
		old = state->link;
		state->link = link;
		while (old && (packet = link_take(old))) {
			__skb_queue_tail(&state->direct, packet->cookie);
			kmem_cache_free(packets, packet);
		}
		if (!skb_queue_empty(&state->direct))
			__netif_schedule(state->sch);
	}
	spin_unlock_bh(&state->lock);
	free_link(old);
	return error;
}

static int link_write(struct file *file, char *text, size_t size)
{
	struct seq_file *seq = file->private_data;
	struct state *state = state_of(seq_file_single_net(seq));
	int error;

	mutex_lock(&state->telling);
	error = told(state, strim(text));
	mutex_unlock(&state->telling);
	return error;
}

/* What is shown */

void show_classes(struct seq_file *file, u32 number, const struct link_class *classes)
{
	u32 c;

	for (c = 0; c < LINK_CLASSES; c++) {
		const struct link_class *one = &classes[c];

		if (!one->in.packets)
			continue;
		seq_printf(file, "class %u %s %llu %llu %llu %llu %llu %llu", number, class_names[c], one->in.packets,
			   one->in.bytes, one->out.packets, one->out.bytes, one->dropped.packets, one->dropped.bytes);
		seq_printf(file, " %llu %llu %llu %llu %llu %llu\n", one->lost.packets, one->lost.bytes,
			   one->queued.packets, one->queued.bytes, link_delay_us(one, 50), link_delay_us(one, 95));
	}
}

static int link_show(struct seq_file *file, void *unused)
{
	struct state *state = state_of(seq_file_single_net(file));

	spin_lock_bh(&state->lock);
	if (state->link) {
		link_advance(state->link, ktime_get_ns(), false);
		seq_printf(file, "strangers %llu\n", state->link->strangers);
		show(file, state->link);
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
	if (!proc_create_net_single_write(KBUILD_MODNAME, 0600, net->proc_net, link_show, link_write, NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit link_net_exit(struct net *net)
{
	struct state *state = state_of(net);

	remove_proc_entry(KBUILD_MODNAME, net->proc_net);
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

	packets = kmem_cache_create(KBUILD_MODNAME "_packet", sizeof(struct link_packet), 0, 0, NULL);
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
