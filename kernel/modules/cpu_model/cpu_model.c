// SPDX-License-Identifier: GPL-2.0
/*
 * A host's CPU as a queue: one server, first come, first served, whose time for
 * a packet is affine in the packet's length (docs/method/cpu.md).
 *
 * The qdisc `cpu` is the root of an ifb of the host, to which the packets of its
 * tunnel devices are redirected: what goes into a tunnel (to be encrypted) and
 * what has come out of it (has been decrypted). A packet goes on when the CPU has
 * had time for it. All tunnels of a host share its CPU.
 *
 * tc cannot set what a qdisc takes that it does not know, so the times are
 * written to /proc/net/cpu_model of the host's network namespace, a line each:
 *
 *	limit PACKETS			that wait or are served; more are dropped
 *	tunnel NAME ENCRYPT_NS ENCRYPT_PS DECRYPT_NS DECRYPT_PS
 *					per packet, and in picoseconds per byte
 *	remove NAME
 *	background MEAN_NS COST_NS SEED	packets of others, which only cost time: one
 *					after 0 to twice MEAN_NS, at random; 0: none
 *
 * Read, it has what has been done:
 *
 *	busy_ns N			time of the CPU that what it accepted has taken, or will take
 *	busiest_ns N			most of that in one second
 *	background PACKETS DROPPED
 *	NAME encrypt|decrypt PACKETS BYTES DROPPED LONGEST_NS
 *					LONGEST_NS: longest wait, service included
 */

#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/proc_fs.h>
#include <linux/seq_file_net.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/netns/generic.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#define LIMIT_DEFAULT 1000
#define LIMIT_MAX 100000

enum { ENCRYPT, DECRYPT, DIRECTIONS };

static const char * const names[DIRECTIONS] = { "encrypt", "decrypt" };

struct direction {
	u32 ns_per_packet;
	u32 ps_per_byte;
	u64 packets;
	u64 bytes;
	u64 dropped;
	u64 longest_ns;
};

struct tunnel {
	struct list_head list;
	char name[IFNAMSIZ];
	int ifindex;
	struct direction directions[DIRECTIONS];
};

struct host_cpu {
	spinlock_t lock;
	struct list_head tunnels;
	u64 free_ns;		/* when it has done all that it has accepted */
	u64 busy_ns;
	u64 second;		/* in which it was last at work, */
	u64 second_ns;		/* how long, */
	u64 busiest_ns;		/* and the most of all seconds */
	u64 *leaves_ns;		/* when the last `limit` packets accepted leave */
	u32 limit;
	u32 oldest;		/* of leaves_ns: its place is the next packet's */
	/* Of others: */
	u32 mean_ns;
	u32 cost_ns;
	u64 next_ns;
	u64 background;
	u64 background_dropped;
	struct rnd_state random;
};

struct place {
	struct qdisc_watchdog watchdog;
};

struct times {
	u64 leaves_ns;
};

static unsigned int model_id;

static struct host_cpu *model_of(const struct net *net)
{
	return net_generic(net, model_id);
}

static struct times *times_of(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct times));
	return (struct times *)qdisc_skb_cb(skb)->data;
}

static void work(struct host_cpu *cpu, u64 cost_ns)
{
	u64 second = cpu->free_ns / NSEC_PER_SEC;

	cpu->busy_ns += cost_ns;
	cpu->second_ns = cost_ns + (second == cpu->second ? cpu->second_ns : 0);
	cpu->second = second;
	cpu->busiest_ns = max(cpu->busiest_ns, cpu->second_ns);
}

/* When what arrives at now_ns and costs that will be done; 0 if it finds `limit` packets before it. */
static u64 accept(struct host_cpu *cpu, u64 now_ns, u64 cost_ns)
{
	if (cpu->leaves_ns[cpu->oldest] > now_ns)
		return 0;
	cpu->free_ns = max(cpu->free_ns, now_ns) + cost_ns;
	work(cpu, cost_ns);
	cpu->leaves_ns[cpu->oldest] = cpu->free_ns;
	if (++cpu->oldest == cpu->limit)
		cpu->oldest = 0;
	return cpu->free_ns;
}

static void bring_background(struct host_cpu *cpu, u64 now_ns)
{
	while (cpu->mean_ns && cpu->next_ns <= now_ns) {
		if (accept(cpu, cpu->next_ns, cpu->cost_ns))
			cpu->background++;
		else
			cpu->background_dropped++;
		cpu->next_ns += ((u64)prandom_u32_state(&cpu->random) * 2 * cpu->mean_ns) >> 32;
	}
}

static struct tunnel *find(struct host_cpu *cpu, const char *name)
{
	struct tunnel *tunnel;

	list_for_each_entry(tunnel, &cpu->tunnels, list)
		if (!strcmp(tunnel->name, name))
			return tunnel;
	return NULL;
}

static struct direction *direction_of(struct host_cpu *cpu, const struct sk_buff *skb)
{
	struct tunnel *tunnel;

	list_for_each_entry(tunnel, &cpu->tunnels, list)
		if (tunnel->ifindex == skb->skb_iif)
			return &tunnel->directions[skb->from_ingress ? DECRYPT : ENCRYPT];
	return NULL;
}

/*
 * A packet that the tunnel's device will cut into segments, or that the kernel has put together of several,
 * costs what the segments do: pkt_len has all their headers.
 */
static u64 arrive(struct host_cpu *cpu, struct direction *direction, const struct sk_buff *skb, u64 now_ns)
{
	u32 segments = max_t(u32, qdisc_skb_cb(skb)->pkt_segs, 1), bytes = qdisc_skb_cb(skb)->pkt_len;
	u64 cost_ns = (u64)segments * direction->ns_per_packet + (u64)bytes * direction->ps_per_byte / 1000;
	u64 leaves_ns;

	bring_background(cpu, now_ns);
	leaves_ns = accept(cpu, now_ns, cost_ns);
	if (!leaves_ns) {
		direction->dropped += segments;
		return 0;
	}
	direction->packets += segments;
	direction->bytes += bytes;
	direction->longest_ns = max(direction->longest_ns, leaves_ns - now_ns);
	return leaves_ns;
}

static int model_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct host_cpu *cpu = model_of(dev_net(qdisc_dev(sch)));
	u64 now_ns = ktime_get_ns(), leaves_ns = now_ns;
	struct direction *direction;

	spin_lock_bh(&cpu->lock);
	direction = direction_of(cpu, skb);
	if (direction)
		leaves_ns = arrive(cpu, direction, skb, now_ns);
	spin_unlock_bh(&cpu->lock);
	if (!leaves_ns) {
		qdisc_qstats_drop(sch);
		__qdisc_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	times_of(skb)->leaves_ns = leaves_ns;
	return qdisc_enqueue_tail(skb, sch);
}

static struct sk_buff *model_dequeue(struct Qdisc *sch)
{
	struct place *place = qdisc_priv(sch);
	struct sk_buff *skb = qdisc_peek_head(sch);
	u64 leaves_ns;

	if (!skb)
		return NULL;
	leaves_ns = times_of(skb)->leaves_ns;
	if (leaves_ns > ktime_get_ns()) {
		qdisc_watchdog_schedule_ns(&place->watchdog, leaves_ns);
		return NULL;
	}
	return qdisc_dequeue_head(sch);
}

static int model_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct place *place = qdisc_priv(sch);

	qdisc_watchdog_init(&place->watchdog, sch);
	return 0;
}

static void model_reset(struct Qdisc *sch)
{
	struct place *place = qdisc_priv(sch);

	qdisc_reset_queue(sch);
	qdisc_watchdog_cancel(&place->watchdog);
}

static void model_destroy(struct Qdisc *sch)
{
	struct place *place = qdisc_priv(sch);

	qdisc_watchdog_cancel(&place->watchdog);
}

static struct Qdisc_ops model_ops __read_mostly = {
	.id		= "cpu",
	.priv_size	= sizeof(struct place),
	.enqueue	= model_enqueue,
	.dequeue	= model_dequeue,
	.peek		= qdisc_peek_head,
	.init		= model_init,
	.reset		= model_reset,
	.destroy	= model_destroy,
	.owner		= THIS_MODULE,
};

static int set_limit(struct host_cpu *cpu, u32 limit)
{
	u64 *leaves_ns, *before;

	if (!limit || limit > LIMIT_MAX)
		return -EINVAL;
	leaves_ns = vcalloc(limit, sizeof(*leaves_ns));
	if (!leaves_ns)
		return -ENOMEM;
	spin_lock_bh(&cpu->lock);
	before = cpu->leaves_ns;
	cpu->leaves_ns = leaves_ns;
	cpu->limit = limit;
	cpu->oldest = 0;
	spin_unlock_bh(&cpu->lock);
	vfree(before);
	return 0;
}

static int set_tunnel(struct net *net, struct host_cpu *cpu, const char *name, const u32 *times)
{
	struct net_device *netdev = dev_get_by_name(net, name);
	struct tunnel *tunnel, *made;
	int i;

	if (!netdev)
		return -ENODEV;
	made = kzalloc(sizeof(*made), GFP_KERNEL);
	if (!made) {
		dev_put(netdev);
		return -ENOMEM;
	}
	spin_lock_bh(&cpu->lock);
	tunnel = find(cpu, name);
	if (!tunnel) {
		tunnel = made;
		made = NULL;
		strscpy(tunnel->name, name);
		list_add_tail(&tunnel->list, &cpu->tunnels);
	}
	tunnel->ifindex = netdev->ifindex;
	for (i = 0; i < DIRECTIONS; i++) {
		tunnel->directions[i].ns_per_packet = times[2 * i];
		tunnel->directions[i].ps_per_byte = times[2 * i + 1];
	}
	spin_unlock_bh(&cpu->lock);
	kfree(made);
	dev_put(netdev);
	return 0;
}

static int remove_tunnel(struct host_cpu *cpu, const char *name)
{
	struct tunnel *tunnel;

	spin_lock_bh(&cpu->lock);
	tunnel = find(cpu, name);
	if (tunnel)
		list_del(&tunnel->list);
	spin_unlock_bh(&cpu->lock);
	kfree(tunnel);
	return tunnel ? 0 : -ENODEV;
}

static int set_background(struct host_cpu *cpu, u32 mean_ns, u32 cost_ns, u64 seed)
{
	spin_lock_bh(&cpu->lock);
	prandom_seed_state(&cpu->random, seed);
	cpu->mean_ns = mean_ns;
	cpu->cost_ns = cost_ns;
	cpu->next_ns = ktime_get_ns();
	spin_unlock_bh(&cpu->lock);
	return 0;
}

static int model_write(struct file *file, char *text, size_t size)
{
	struct net *net = seq_file_single_net(file->private_data);
	struct host_cpu *cpu = model_of(net);
	char name[IFNAMSIZ];
	u32 times[4];
	u64 seed;
	char end;

	if (sscanf(text, "limit %u %c", times, &end) == 1)
		return set_limit(cpu, times[0]);
	if (sscanf(text, "tunnel %15s %u %u %u %u %c", name, times, times + 1, times + 2, times + 3, &end) == 5)
		return set_tunnel(net, cpu, name, times);
	if (sscanf(text, "remove %15s %c", name, &end) == 1)
		return remove_tunnel(cpu, name);
	if (sscanf(text, "background %u %u %llu %c", times, times + 1, &seed, &end) == 3)
		return set_background(cpu, times[0], times[1], seed);
	return -EINVAL;
}

static int model_show(struct seq_file *file, void *unused)
{
	struct host_cpu *cpu = model_of(seq_file_single_net(file));
	struct tunnel *tunnel;
	int i;

	spin_lock_bh(&cpu->lock);
	bring_background(cpu, ktime_get_ns());
	seq_printf(file, "busy_ns %llu\nbusiest_ns %llu\n", cpu->busy_ns, cpu->busiest_ns);
	seq_printf(file, "background %llu %llu\n", cpu->background, cpu->background_dropped);
	list_for_each_entry(tunnel, &cpu->tunnels, list)
		for (i = 0; i < DIRECTIONS; i++) {
			const struct direction *shown = &tunnel->directions[i];

			seq_printf(file, "%s %s %llu %llu %llu %llu\n", tunnel->name, names[i], shown->packets,
				   shown->bytes, shown->dropped, shown->longest_ns);
		}
	spin_unlock_bh(&cpu->lock);
	return 0;
}

static int __net_init model_net_init(struct net *net)
{
	struct host_cpu *cpu = model_of(net);

	spin_lock_init(&cpu->lock);
	INIT_LIST_HEAD(&cpu->tunnels);
	if (set_limit(cpu, LIMIT_DEFAULT))
		return -ENOMEM;
	if (proc_create_net_single_write("cpu_model", 0600, net->proc_net, model_show, model_write, NULL))
		return 0;
	vfree(cpu->leaves_ns);
	return -ENOMEM;
}

static void __net_exit model_net_exit(struct net *net)
{
	struct host_cpu *cpu = model_of(net);
	struct tunnel *tunnel, *next;

	remove_proc_entry("cpu_model", net->proc_net);
	list_for_each_entry_safe(tunnel, next, &cpu->tunnels, list)
		kfree(tunnel);
	vfree(cpu->leaves_ns);
}

static struct pernet_operations model_net_ops = {
	.init	= model_net_init,
	.exit	= model_net_exit,
	.id	= &model_id,
	.size	= sizeof(struct host_cpu),
};

static int __init model_register(void)
{
	int error = register_pernet_subsys(&model_net_ops);

	if (error)
		return error;
	error = register_qdisc(&model_ops);
	if (error)
		unregister_pernet_subsys(&model_net_ops);
	return error;
}

static void __exit model_unregister(void)
{
	unregister_qdisc(&model_ops);
	unregister_pernet_subsys(&model_net_ops);
}

module_init(model_register);
module_exit(model_unregister);
MODULE_DESCRIPTION("A host's CPU as a queue of packets, for User Mode Linux in virtual time");
MODULE_LICENSE("GPL");
