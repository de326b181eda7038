// SPDX-License-Identifier: GPL-2.0
/*
 * What real hosts add to the times of packets, drawn at random (docs/method/noise.md).
 *
 * A packet that has come over a link waits for the host that takes it: for its TCP,
 * its tunnel, its programs. The first packet of a group waits for a time that is
 * drawn, those that come in the meantime are taken with it. So packets keep their
 * order, and no rate changes. The hosts that forwarded it are late as well: for each,
 * known by the time to live, a time is drawn there too. In virtual time a host that
 * forwards has nothing that reads the clock in between, and an event for each host
 * and packet would cost a tenth of a run. A timer of TCP's pacing, or one that a
 * program sleeps by, fires late by a time that is drawn.
 *
 * Each network namespace has its own distributions and its own random numbers. They
 * are written to its /proc/net/host_noise, a line each:
 *
 *	seed NUMBER			of the random numbers: first
 *	receive NS NS ...		POINTS quantiles at equal distances, in ns
 *	timer NS NS ...
 *
 * A namespace where nothing was written has no noise: its packets are those of a
 * kernel without this file, to the bit. Read, it has the number of packets that were
 * late and of the groups that they were taken in.
 */
#include <asm/host_noise.h>
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/prandom.h>
#include <linux/proc_fs.h>
#include <linux/seq_file_net.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>

#define STEPS_LOG	8
#define POINTS		((1 << STEPS_LOG) + 1)
#define LATE_MAX_NS	(10 * NSEC_PER_MSEC)
#define HOPS_MAX	16	/* beyond, the sender has not begun with IPDEFTTL */
#define WARM_UP		16

struct distribution {
	bool given;
	u32 quantiles_ns[POINTS];
};

struct noise {
	struct distribution receive;
	struct distribution timer;
	struct rnd_state random;
	struct sk_buff_head waiting;
	struct hrtimer take;
	u64 packets;
	u64 groups;
};

static unsigned int noise_id __read_mostly;

static struct noise *noise_of(const struct net *net)
{
	return net_generic(net, noise_id);
}

static u32 drawn_ns(struct noise *noise, const struct distribution *of)
{
	u32 random = prandom_u32_state(&noise->random);
	const u32 *low = &of->quantiles_ns[random >> (32 - STEPS_LOG)];
	u32 part = random << STEPS_LOG;

	return low[0] + (u32)((u64)(low[1] - low[0]) * part >> 32);
}

static enum hrtimer_restart take(struct hrtimer *timer)
{
	struct noise *noise = container_of(timer, struct noise, take);
	struct sk_buff *skb;

	rcu_read_lock();
	while ((skb = __skb_dequeue(&noise->waiting))) {
		struct net_device *dev = skb->dev;

		if (skb->protocol == htons(ETH_P_IP))
			ip_local_deliver_now(skb);
		else
			ip6_input_now(skb);
		dev_put(dev);
	}
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

/* False if the host has no noise, or the packet has come over no link. */
static bool is_taken_late(struct sk_buff *skb, u8 ttl)
{
	struct net_device *dev = skb->dev;
	struct noise *noise = noise_of(dev_net(dev));

	if (!noise->receive.given || dev->type != ARPHRD_ETHER)
		return false;
	if (skb_queue_empty(&noise->waiting)) {
		u64 late_ns = drawn_ns(noise, &noise->receive);
		u32 hops = ttl > IPDEFTTL ? 0 : IPDEFTTL - ttl;

		for (hops = hops > HOPS_MAX ? 0 : hops; hops; hops--)
			late_ns += drawn_ns(noise, &noise->receive);
		hrtimer_start(&noise->take, ns_to_ktime(late_ns), HRTIMER_MODE_REL_SOFT);
		noise->groups++;
	}
	noise->packets++;
	/* UDP's early demux holds no socket: it is looked up when the packet is taken. */
	if (skb_sk_is_prefetched(skb))
		skb_orphan(skb);
	skb_dst_force(skb);
	dev_hold(dev);
	__skb_queue_tail(&noise->waiting, skb);
	return true;
}

int ip_local_deliver(struct sk_buff *skb)
{
	return is_taken_late(skb, ip_hdr(skb)->ttl) ? 0 : ip_local_deliver_now(skb);
}
EXPORT_SYMBOL(ip_local_deliver);

int ip6_input(struct sk_buff *skb)
{
	return is_taken_late(skb, ipv6_hdr(skb)->hop_limit) ? 0 : ip6_input_now(skb);
}
EXPORT_SYMBOL_GPL(ip6_input);

u32 host_noise_late_ns(const struct net *net)
{
	struct noise *noise;

	if (!noise_id)	/* a sleep before there is any noise */
		return 0;
	noise = noise_of(net);
	return noise->timer.given ? drawn_ns(noise, &noise->timer) : 0;
}

static int read_distribution(struct distribution *to, char *text)
{
	u32 points = 0, last = 0, value;
	char *word;

	to->given = false;
	while ((word = strsep(&text, " "))) {
		if (points == POINTS || kstrtou32(word, 10, &value))
			return -EINVAL;
		if (value < last || value > LATE_MAX_NS)
			return -EINVAL;
		to->quantiles_ns[points++] = value;
		last = value;
	}
	to->given = points == POINTS;
	return to->given ? 0 : -EINVAL;
}

static int noise_write(struct file *file, char *text, size_t size)
{
	struct noise *noise = noise_of(seq_file_single_net(file->private_data));
	char *values = strim(text), *kind = strsep(&values, " ");
	u64 seed;
	int i;

	if (!values)
		return -EINVAL;
	if (!strcmp(kind, "receive"))
		return read_distribution(&noise->receive, values);
	if (!strcmp(kind, "timer"))
		return read_distribution(&noise->timer, values);
	if (strcmp(kind, "seed") || kstrtou64(values, 10, &seed))
		return -EINVAL;
	prandom_seed_state(&noise->random, seed);
	/* Of seeds that are near each other the first numbers are, too. */
	for (i = 0; i < WARM_UP; i++)
		prandom_u32_state(&noise->random);
	return 0;
}

static int noise_show(struct seq_file *file, void *unused)
{
	const struct noise *noise = noise_of(seq_file_single_net(file));

	seq_printf(file, "packets %llu\ngroups %llu\n", noise->packets, noise->groups);
	return 0;
}

static int __net_init noise_init(struct net *net)
{
	struct noise *noise = noise_of(net);

	__skb_queue_head_init(&noise->waiting);
	hrtimer_setup(&noise->take, take, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	if (!proc_create_net_single_write("host_noise", 0600, net->proc_net,
					  noise_show, noise_write, NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit noise_exit(struct net *net)
{
	struct noise *noise = noise_of(net);
	struct sk_buff *skb;

	remove_proc_entry("host_noise", net->proc_net);
	hrtimer_cancel(&noise->take);
	while ((skb = __skb_dequeue(&noise->waiting))) {
		dev_put(skb->dev);
		kfree_skb(skb);
	}
}

static struct pernet_operations noise_ops = {
	.init = noise_init,
	.exit = noise_exit,
	.id = &noise_id,
	.size = sizeof(struct noise),
};

static int __init noise_register(void)
{
	return register_pernet_subsys(&noise_ops);
}
subsys_initcall(noise_register);
