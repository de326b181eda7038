// SPDX-License-Identifier: GPL-2.0
/*
 * The return link of a satellite system, whose capacity is assigned on demand (core.h), as the
 * qdisc `dama`: root of the ifb through which the packets of all terminals pass.
 *
 * A frame's source address says which terminal it comes from: they are numbered as they come. Its
 * class follows from the upper three bits of the DSCP: 7 is NM, 6 SIG, 5 EF, 4 to 2 AF, the others
 * BE. Frames that find out link-layer addresses (ARP, neighbour discovery) do not wait: there are
 * none on a satellite link.
 *
 * tc cannot set what a qdisc takes that it does not know, so the values are written to
 * /proc/net/dama of the host's network namespace, as NAME=VALUE NAME=VALUE … (core.h) in one line:
 * from then on there is a link, which is new; packets that wait in the one before are sent at once.
 * Without a link the qdisc drops. There is one qdisc in a namespace. Of the link that is there, the line
 *
 *	terminal N address=NUMBER cra_bps=… rbdc_bps=… vbdc_bytes=… weight=…
 *
 * says which link-layer address a terminal has, and what it has and may ask for, and
 *
 *	wish N BPS
 *
 * that a proxy beside the terminal wants it to ask for so much; 0: no longer.
 *
 * Read, it has what has been done:
 *
 *	strangers N			frames of terminals that there should not be
 *	superframes N			since the link began
 *	most_slots N			that were granted in one superframe
 *	terminal N GRANTED USED BYTES HEADERS PADDED QUEUED REQUESTS COLLISIONS
 *					slots granted and used; bytes of packets, of headers and of
 *					padding in the used ones, and in the queues
 *	simulated GRANTED …		the same, of all simulated terminals together
 *	class N CLASS PACKETS_IN BYTES_IN PACKETS_OUT BYTES_OUT PACKETS_DROPPED BYTES_DROPPED
 *	      PACKETS_QUEUED BYTES_QUEUED MEDIAN_US P95_US
 *					of a terminal; MEDIAN and P95 are access delays
 */

#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/seq_file_net.h>
#include <linux/slab.h>
#include <net/dsfield.h>
#include <net/gso.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "core.h"

#define MOST_CLASS 7
#define MOST_BPS 1000000000ULL

static const u8 class_of_precedence[MOST_CLASS + 1] = { 4, 4, 3, 3, 3, 1, 2, 0 };
static const char * const class_names[DAMA_CLASSES] = { "NM", "EF", "SIG", "AF", "BE" };

struct link {
	struct dama dama;
	u32 known;		/* terminals */
	u64 strangers;
	u8 (*addresses)[ETH_ALEN];
	struct dama_terminal *terminals;
	struct dama_request *requests;
	u32 *bins;
};

struct state {
	spinlock_t lock;
	struct link *link;
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

static bool finds_addresses(struct sk_buff *skb)
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

/* -1: there are enough others. */
static int terminal_of(struct link *link, const struct sk_buff *skb)
{
	const u8 *address = eth_hdr(skb)->h_source;
	u32 i;

	for (i = 0; i < link->known; i++)
		if (ether_addr_equal_unaligned(link->addresses[i], address))
			return i;
	if (link->known == link->dama.values.terminals)
		return -1;
	ether_addr_copy(link->addresses[link->known], address);
	return link->known++;
}

static bool enter(struct link *link, struct sk_buff *skb, u64 now_ns)
{
	struct dama_packet *packet;
	int terminal;

	terminal = terminal_of(link, skb);
	if (terminal < 0) {
		link->strangers++;
		return false;
	}
	packet = kmem_cache_zalloc(packets, GFP_ATOMIC);
	if (!packet)
		return false;
	packet->cookie = skb;
	packet->terminal = terminal;
	packet->class = class_of(skb);
	packet->bytes = max_t(u32, skb->len - skb_network_offset(skb), 1);
	if (dama_arrive(&link->dama, packet, now_ns))
		return true;
	kmem_cache_free(packets, packet);
	return false;
}

static int enqueue_one(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct state *state = state_of_qdisc(sch);
	u64 now_ns = ktime_get_ns();
	bool entered = false;

	spin_lock_bh(&state->lock);
	if (finds_addresses(skb)) {
		__skb_queue_tail(&state->direct, skb);
		entered = true;
	} else if (state->link) {
		dama_advance(&state->link->dama, now_ns);
		entered = enter(state->link, skb, now_ns);
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

static struct sk_buff *link_dequeue(struct Qdisc *sch)
{
	struct state *state = state_of_qdisc(sch);
	struct place *place = qdisc_priv(sch);
	u64 now_ns = ktime_get_ns(), wake_ns = U64_MAX;
	struct sk_buff *skb;

	spin_lock_bh(&state->lock);
	skb = __skb_dequeue(&state->direct);
	if (!skb && state->link) {
		struct dama_packet *packet;

		dama_advance(&state->link->dama, now_ns);
		packet = dama_leave(&state->link->dama, now_ns);
		if (packet) {
			skb = packet->cookie;
			kmem_cache_free(packets, packet);
		} else {
			wake_ns = dama_next_ns(&state->link->dama);
		}
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
		NL_SET_ERR_MSG(extack, "there is a qdisc dama in this network namespace");
	return error;
}

static void empty(struct state *state)
{
	struct dama_packet *packet;

	__skb_queue_purge(&state->direct);
	while (state->link && (packet = dama_take(&state->link->dama))) {
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
	kvfree(link->terminals);
	kvfree(link->requests);
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
	.id		= "dama",
	.priv_size	= sizeof(struct place),
	.enqueue	= link_enqueue,
	.dequeue	= link_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= link_init,
	.reset		= link_reset,
	.destroy	= link_destroy,
	.owner		= THIS_MODULE,
};

static struct link *made_link(const struct dama_values *values)
{
	size_t all = values->terminals + values->simulated, real = values->terminals;
	struct link *link = kvzalloc(sizeof(*link), GFP_KERNEL);

	if (!link)
		return NULL;
	link->addresses = kvcalloc(real, ETH_ALEN, GFP_KERNEL);
	link->terminals = kvcalloc(all, sizeof(*link->terminals), GFP_KERNEL);
	link->requests = kvcalloc(all * DAMA_RING, sizeof(*link->requests), GFP_KERNEL);
	link->bins = kvcalloc(real * DAMA_CLASSES * DAMA_BINS, sizeof(*link->bins), GFP_KERNEL);
	if (link->addresses && link->terminals && link->requests && link->bins)
		return link;
	free_link(link);
	return NULL;
}

/* What waits in a link that ends. */
static void send_at_once(struct state *state, struct link *link)
{
	struct dama_packet *packet;

	while (link && (packet = dama_take(&link->dama))) {
		__skb_queue_tail(&state->direct, packet->cookie);
		kmem_cache_free(packets, packet);
	}
	if (!skb_queue_empty(&state->direct))
		__netif_schedule(state->sch);
}

static int begin(struct state *state, const struct dama_values *values)
{
	struct link *link = made_link(values), *old = NULL;
	int error = 0;

	if (!link)
		return -ENOMEM;
	spin_lock_bh(&state->lock);
	if (state->sch) {
		dama_start(&link->dama, values, link->terminals, link->requests, link->bins, ktime_get_ns());
		old = state->link;
		state->link = link;
		send_at_once(state, old);
	} else {
		error = -ENODEV;
	}
	spin_unlock_bh(&state->lock);
	free_link(error ? link : old);
	return error;
}

/* Terminals are numbered as they come, so an address is given to the next number, or to one that has it. */
static int know(struct link *link, u32 number, u64 address)
{
	u8 bytes[ETH_ALEN];

	u64_to_ether_addr(address, bytes);
	if (number < link->known)
		return ether_addr_equal_unaligned(link->addresses[number], bytes) ? 0 : -EEXIST;
	if (number > link->known || number >= link->dama.values.terminals)
		return -EINVAL;
	ether_addr_copy(link->addresses[link->known++], bytes);
	return 0;
}

static int give(struct link *link, u32 number, char *text)
{
	struct dama_share share;
	u64 address = 0;
	char *word;
	int error;

	if (number >= link->dama.values.terminals)
		return -EINVAL;
	share = link->dama.terminals[number].share;
	while (text && (word = strsep(&text, " "))) {
		char *value = strchr(word, '=');
		u64 *into;

		if (!value)
			return -EINVAL;
		*value++ = '\0';
		into = strcmp(word, "address") ? dama_share_value(&share, word) : &address;
		if (!into || kstrtou64(value, 10, into))
			return -EINVAL;
	}
	error = address ? know(link, number, address) : 0;
	return error ? error : dama_give(&link->dama, number, &share) ? -EDOM : 0;
}

static int wish(struct link *link, u32 number, const char *text)
{
	u64 rate_bps;

	if (number >= link->dama.values.terminals || !text || kstrtou64(text, 10, &rate_bps))
		return -EINVAL;
	if (rate_bps > MOST_BPS)
		return -EDOM;
	dama_wish(&link->dama, number, rate_bps);
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
		dama_advance(&state->link->dama, ktime_get_ns());
		error = is_wish ? wish(state->link, number, text) : give(state->link, number, text);
	}
	spin_unlock_bh(&state->lock);
	return error;
}

static int link_write(struct file *file, char *text, size_t size)
{
	struct seq_file *seq = file->private_data;
	struct state *state = state_of(seq_file_single_net(seq));
	struct dama_values values = {};
	char *word;

	text = strim(text);
	if (str_has_prefix(text, "terminal "))
		return change_terminal(state, false, text + strlen("terminal "));
	if (str_has_prefix(text, "wish "))
		return change_terminal(state, true, text + strlen("wish "));
	while ((word = strsep(&text, " "))) {
		char *number = strchr(word, '=');
		u64 *value;

		if (!number)
			return -EINVAL;
		*number++ = '\0';
		value = dama_value(&values, word);
		if (!value || kstrtou64(number, 10, value))
			return -EINVAL;
	}
	if (dama_check(&values))
		return -EDOM;
	return begin(state, &values);
}

static void show_terminal(struct seq_file *file, const struct dama_terminal *one, u64 queued_bytes)
{
	seq_printf(file, " %llu %llu %llu %llu %llu %llu %llu %llu\n", one->granted_slots, one->used_slots,
		   one->used_bytes, one->header_bytes, one->padded_bytes, queued_bytes, one->request_count,
		   one->collisions);
}

static void show_class(struct seq_file *file, u32 number, u32 of, const struct dama_class *one)
{
	seq_printf(file, "class %u %s %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu\n", number, class_names[of],
		   one->in.packets, one->in.bytes, one->out.packets, one->out.bytes, one->dropped.packets,
		   one->dropped.bytes, one->queued.packets, one->queued.bytes, dama_delay_us(one, 50),
		   dama_delay_us(one, 95));
}

static void show_simulated(struct seq_file *file, const struct dama *dama)
{
	struct dama_terminal sum = {};
	u64 queued_bytes = 0;
	u32 i;

	for (i = dama->values.terminals; i < dama->count; i++) {
		const struct dama_terminal *one = &dama->terminals[i];

		sum.granted_slots += one->granted_slots;
		sum.used_slots += one->used_slots;
		sum.used_bytes += one->used_bytes;
		sum.header_bytes += one->header_bytes;
		sum.padded_bytes += one->padded_bytes;
		sum.request_count += one->request_count;
		sum.collisions += one->collisions;
		queued_bytes += dama_queued_bytes(one);
	}
	seq_puts(file, "simulated");
	show_terminal(file, &sum, queued_bytes);
}

static int link_show(struct seq_file *file, void *unused)
{
	struct state *state = state_of(seq_file_single_net(file));
	u32 i, c;

	spin_lock_bh(&state->lock);
	if (state->link) {
		struct dama *dama = &state->link->dama;

		dama_advance(dama, ktime_get_ns());
		seq_printf(file, "strangers %llu\nsuperframes %llu\nmost_slots %llu\n", state->link->strangers,
			   dama->superframe, dama->most_granted);
		for (i = 0; i < dama->values.terminals; i++) {
			seq_printf(file, "terminal %u", i);
			show_terminal(file, &dama->terminals[i], dama_queued_bytes(&dama->terminals[i]));
			for (c = 0; c < DAMA_CLASSES; c++)
				if (dama->terminals[i].classes[c].in.packets)
					show_class(file, i, c, &dama->terminals[i].classes[c]);
		}
		if (dama->values.simulated)
			show_simulated(file, dama);
	}
	spin_unlock_bh(&state->lock);
	return 0;
}

static int __net_init link_net_init(struct net *net)
{
	struct state *state = state_of(net);

	spin_lock_init(&state->lock);
	__skb_queue_head_init(&state->direct);
	if (!proc_create_net_single_write("dama", 0600, net->proc_net, link_show, link_write, NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit link_net_exit(struct net *net)
{
	remove_proc_entry("dama", net->proc_net);
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

	packets = KMEM_CACHE(dama_packet, 0);
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
MODULE_DESCRIPTION("A return link whose capacity is assigned on demand, for User Mode Linux in virtual time");
MODULE_LICENSE("GPL");
