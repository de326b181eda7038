// SPDX-License-Identifier: GPL-2.0
/*
 * A host's CPU as a server of packets, whose time for a packet is affine in the
 * packet's length (docs/method/cpu.md).
 *
 * The qdisc `cpu` is the root of an ifb of the host, to which the packets of its
 * tunnel devices are redirected: what goes into a tunnel (to be encrypted) and
 * what has come out of it (has been decrypted). A packet goes on when the CPU has
 * had time for it. Each direction of a tunnel has a queue; the CPU serves one
 * packet of each in turn.
 *
 * tc cannot set what a qdisc takes that it does not know, so the times are
 * written to /proc/net/cpu_model of the host's network namespace, a line each:
 *
 *	limit PACKETS			of each queue, before there is one; more are dropped
 *	tunnel NAME ENCRYPT_NS ENCRYPT_PS DECRYPT_NS DECRYPT_PS
 *					per packet, and in picoseconds per byte
 *	others NAME USERS MEAN_NS BYTES ACK_BYTES RTT_NS SEED
 *					packets of others in the same queues, which only cost
 *					time: one of BYTES to be encrypted after 0 to twice
 *					MEAN_NS, at random, and for each second one of
 *					ACK_BYTES that has to be decrypted. When one is dropped
 *					one of the USERS halves its rate; each adds a packet
 *					per RTT_NS to what it sends in that time until it has
 *					its rate again
 *	remove NAME
 *
 * Read, it has what has been done:
 *
 *	busy_ns N			time of the CPU that it has worked, or will
 *	busiest_ns N			most of that in one second
 *	NAME encrypt|decrypt PACKETS BYTES DROPPED LONGEST_NS OTHERS OTHERS_DROPPED
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
#define LIMIT_MAX 10000
#define TUNNELS 64
#define FULL (1ULL << 32)
#define SHARE_MIN (FULL / 256)

enum { ENCRYPT, DECRYPT, DIRECTIONS };

static const char * const names[DIRECTIONS] = { "encrypt", "decrypt" };

struct entry {
	struct sk_buff *skb;	/* NULL: of others */
	u64 cost_ns;
	u64 arrived_ns;
};

struct queue {
	u32 ns_per_packet;
	u32 ps_per_byte;
	struct entry *entries;	/* a ring of `limit` */
	u32 first;
	u32 waiting;
	u64 packets;
	u64 bytes;
	u64 dropped;
	u64 longest_ns;
	u64 others;
	u64 others_dropped;
};

struct tunnel {
	char name[IFNAMSIZ];
	int ifindex;
	struct queue queues[DIRECTIONS];
	/* Of others: */
	u32 users;
	u32 mean_ns;
	u32 rtt_ns;
	u64 share;		/* of their rate, in parts of FULL */
	u32 bytes;
	u32 ack_bytes;
	bool ack_is_due;
	u64 next_ns;
	struct rnd_state random;
};

struct host_cpu {
	spinlock_t lock;
	struct tunnel *tunnels[TUNNELS];
	u32 limit;
	u32 turn;		/* the queue that was served last */
	struct entry served;
	struct queue *served_of;
	u64 done_ns;		/* U64_MAX: nothing is served */
	u32 skbs;		/* that wait or are served */
	struct sk_buff_head done;
	u64 busy_ns;
	u64 second;		/* in which a service ended last, */
	u64 second_ns;		/* how long it has worked in that, */
	u64 busiest_ns;		/* and the most of all seconds */
};

struct place {
	struct qdisc_watchdog watchdog;
};

static unsigned int model_id;

static struct host_cpu *cpu_of(const struct net *net)
{
	return net_generic(net, model_id);
}

static u64 cost_of(const struct queue *queue, u32 packets, u32 bytes)
{
	return (u64)packets * queue->ns_per_packet + (u64)bytes * queue->ps_per_byte / 1000;
}

static void count_work(struct host_cpu *cpu, u64 cost_ns)
{
	u64 second = cpu->done_ns / NSEC_PER_SEC;

	cpu->busy_ns += cost_ns;
	cpu->second_ns = cost_ns + (second == cpu->second ? cpu->second_ns : 0);
	cpu->second = second;
	cpu->busiest_ns = max(cpu->busiest_ns, cpu->second_ns);
}

static void serve_next(struct host_cpu *cpu, u64 now_ns)
{
	u32 i;

	cpu->done_ns = U64_MAX;
	for (i = 1; i <= TUNNELS * DIRECTIONS; i++) {
		u32 turn = (cpu->turn + i) % (TUNNELS * DIRECTIONS);
		struct tunnel *tunnel = cpu->tunnels[turn / DIRECTIONS];
		struct queue *queue = tunnel ? &tunnel->queues[turn % DIRECTIONS] : NULL;

		if (!queue || !queue->waiting)
			continue;
		cpu->served = queue->entries[queue->first];
		cpu->served_of = queue;
		queue->waiting--;
		if (++queue->first == cpu->limit)
			queue->first = 0;
		cpu->turn = turn;
		cpu->done_ns = now_ns + cpu->served.cost_ns;
		count_work(cpu, cpu->served.cost_ns);
		return;
	}
}

static bool arrive(struct host_cpu *cpu, struct queue *queue, struct sk_buff *skb, u64 cost_ns, u64 now_ns)
{
	if (queue->waiting == cpu->limit)
		return false;
	queue->entries[(queue->first + queue->waiting) % cpu->limit] = (struct entry){ skb, cost_ns, now_ns };
	queue->waiting++;
	if (skb)
		cpu->skbs++;
	if (cpu->done_ns == U64_MAX)
		serve_next(cpu, now_ns);
	return true;
}

static void arrive_other(struct host_cpu *cpu, struct queue *queue, u32 bytes, u64 now_ns)
{
	if (arrive(cpu, queue, NULL, cost_of(queue, 1, bytes), now_ns))
		queue->others++;
	else
		queue->others_dropped++;
}

/* A window of W packets becomes one of W + 1 in a round trip: RTT / (USERS * MEAN) is that of the whole rate. */
static void others_speed_up(struct tunnel *tunnel, u64 passed_ns)
{
	u64 a_packet = div_u64((u64)tunnel->users * tunnel->mean_ns * (FULL >> 12), tunnel->rtt_ns) << 12;

	tunnel->share = min(tunnel->share + mul_u64_u64_div_u64(a_packet, passed_ns, tunnel->rtt_ns), FULL);
}

static void others_arrive(struct host_cpu *cpu, struct tunnel *tunnel)
{
	u64 dropped = tunnel->queues[ENCRYPT].others_dropped, passed_ns;

	arrive_other(cpu, &tunnel->queues[ENCRYPT], tunnel->bytes, tunnel->next_ns);
	if (tunnel->queues[ENCRYPT].others_dropped > dropped)
		tunnel->share = max(tunnel->share - tunnel->share / (2 * tunnel->users), SHARE_MIN);
	if (tunnel->ack_is_due)
		arrive_other(cpu, &tunnel->queues[DECRYPT], tunnel->ack_bytes, tunnel->next_ns);
	tunnel->ack_is_due = !tunnel->ack_is_due;
	passed_ns = div64_u64((u64)prandom_u32_state(&tunnel->random) * 2 * tunnel->mean_ns, tunnel->share);
	others_speed_up(tunnel, passed_ns);
	tunnel->next_ns += passed_ns;
}

static void finish(struct host_cpu *cpu)
{
	struct entry served = cpu->served;

	if (served.skb) {
		struct queue *queue = cpu->served_of;

		if (queue)
			queue->longest_ns = max(queue->longest_ns, cpu->done_ns - served.arrived_ns);
		__skb_queue_tail(&cpu->done, served.skb);
		cpu->skbs--;
	}
	serve_next(cpu, cpu->done_ns);
}

static struct tunnel *next_of_others(struct host_cpu *cpu)
{
	struct tunnel *next = NULL;
	u32 i;

	for (i = 0; i < TUNNELS; i++) {
		struct tunnel *tunnel = cpu->tunnels[i];

		if (tunnel && tunnel->mean_ns && (!next || tunnel->next_ns < next->next_ns))
			next = tunnel;
	}
	return next;
}

/* All that happens until then, in its order. What others do is only looked at when somebody asks. */
static void advance(struct host_cpu *cpu, u64 now_ns)
{
	for (;;) {
		struct tunnel *others = next_of_others(cpu);
		u64 next_ns = others ? others->next_ns : U64_MAX;

		if (min(cpu->done_ns, next_ns) > now_ns)
			return;
		if (cpu->done_ns <= next_ns)
			finish(cpu);
		else
			others_arrive(cpu, others);
	}
}

static struct queue *queue_of(struct host_cpu *cpu, const struct sk_buff *skb)
{
	u32 i;

	for (i = 0; i < TUNNELS; i++)
		if (cpu->tunnels[i] && cpu->tunnels[i]->ifindex == skb->skb_iif)
			return &cpu->tunnels[i]->queues[skb->from_ingress ? DECRYPT : ENCRYPT];
	return NULL;
}

/*
 * A packet that the tunnel's device will cut into segments, or that the kernel has put together of several,
 * costs what the segments do: pkt_len has all their headers.
 */
static bool enter(struct host_cpu *cpu, struct sk_buff *skb, u64 now_ns)
{
	u32 segments = max_t(u32, qdisc_skb_cb(skb)->pkt_segs, 1), bytes = qdisc_skb_cb(skb)->pkt_len;
	struct queue *queue = queue_of(cpu, skb);

	if (!queue)
		return false;
	if (!arrive(cpu, queue, skb, cost_of(queue, segments, bytes), now_ns)) {
		queue->dropped += segments;
		return false;
	}
	queue->packets += segments;
	queue->bytes += bytes;
	return true;
}

static int model_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct host_cpu *cpu = cpu_of(dev_net(qdisc_dev(sch)));
	u64 now_ns = ktime_get_ns();
	bool entered;

	spin_lock_bh(&cpu->lock);
	advance(cpu, now_ns);
	entered = enter(cpu, skb, now_ns);
	spin_unlock_bh(&cpu->lock);
	if (!entered) {
		qdisc_qstats_drop(sch);
		__qdisc_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	qdisc_qlen_inc(sch);
	qdisc_qstats_backlog_inc(sch, skb);
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *model_dequeue(struct Qdisc *sch)
{
	struct host_cpu *cpu = cpu_of(dev_net(qdisc_dev(sch)));
	struct place *place = qdisc_priv(sch);
	struct sk_buff *skb;
	u64 wake_ns = 0;

	spin_lock_bh(&cpu->lock);
	advance(cpu, ktime_get_ns());
	skb = __skb_dequeue(&cpu->done);
	if (!skb && cpu->skbs)
		wake_ns = cpu->done_ns;
	spin_unlock_bh(&cpu->lock);
	if (skb) {
		qdisc_qlen_dec(sch);
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_bstats_update(sch, skb);
	} else if (wake_ns) {
		qdisc_watchdog_schedule_ns(&place->watchdog, wake_ns);
	}
	return skb;
}

static int model_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct place *place = qdisc_priv(sch);

	qdisc_watchdog_init(&place->watchdog, sch);
	return 0;
}

static void empty(struct host_cpu *cpu, struct queue *queue)
{
	for (; queue->waiting; queue->waiting--) {
		struct sk_buff *skb = queue->entries[queue->first].skb;

		if (skb) {
			cpu->skbs--;
			kfree_skb(skb);
		}
		if (++queue->first == cpu->limit)
			queue->first = 0;
	}
}

static void model_reset(struct Qdisc *sch)
{
	struct host_cpu *cpu = cpu_of(dev_net(qdisc_dev(sch)));
	struct place *place = qdisc_priv(sch);
	u32 i;

	qdisc_watchdog_cancel(&place->watchdog);
	spin_lock_bh(&cpu->lock);
	for (i = 0; i < TUNNELS * DIRECTIONS; i++)
		if (cpu->tunnels[i / DIRECTIONS])
			empty(cpu, &cpu->tunnels[i / DIRECTIONS]->queues[i % DIRECTIONS]);
	if (cpu->done_ns != U64_MAX)
		kfree_skb(cpu->served.skb);
	cpu->done_ns = U64_MAX;
	cpu->skbs = 0;
	__skb_queue_purge(&cpu->done);
	spin_unlock_bh(&cpu->lock);
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
	.peek		= qdisc_peek_dequeued,
	.init		= model_init,
	.reset		= model_reset,
	.destroy	= model_destroy,
	.owner		= THIS_MODULE,
};

static void free_tunnel(struct tunnel *tunnel)
{
	int i;

	for (i = 0; tunnel && i < DIRECTIONS; i++)
		vfree(tunnel->queues[i].entries);
	kfree(tunnel);
}

static struct tunnel *made_tunnel(const struct host_cpu *cpu, const char *name, int ifindex, const u32 *times)
{
	struct tunnel *tunnel = kzalloc(sizeof(*tunnel), GFP_KERNEL);
	int i;

	if (!tunnel)
		return NULL;
	strscpy(tunnel->name, name);
	tunnel->ifindex = ifindex;
	for (i = 0; i < DIRECTIONS; i++) {
		struct queue *queue = &tunnel->queues[i];

		queue->ns_per_packet = times[2 * i];
		queue->ps_per_byte = times[2 * i + 1];
		queue->entries = vcalloc(cpu->limit, sizeof(*queue->entries));
		if (!queue->entries) {
			free_tunnel(tunnel);
			return NULL;
		}
	}
	return tunnel;
}

static struct tunnel **slot_of(struct host_cpu *cpu, const char *name)
{
	u32 i;

	for (i = 0; i < TUNNELS; i++)
		if (cpu->tunnels[i] ? name && !strcmp(cpu->tunnels[i]->name, name) : !name)
			return &cpu->tunnels[i];
	return NULL;
}

static int add_tunnel(struct net *net, struct host_cpu *cpu, const char *name, const u32 *times)
{
	struct net_device *netdev = dev_get_by_name(net, name);
	struct tunnel *tunnel, **slot;
	int error = -EEXIST;

	if (!netdev)
		return -ENODEV;
	tunnel = made_tunnel(cpu, name, netdev->ifindex, times);
	dev_put(netdev);
	if (!tunnel)
		return -ENOMEM;
	spin_lock_bh(&cpu->lock);
	if (!slot_of(cpu, name)) {
		slot = slot_of(cpu, NULL);
		error = slot ? 0 : -ENOSPC;
		if (slot)
			*slot = tunnel;
	}
	spin_unlock_bh(&cpu->lock);
	if (error)
		free_tunnel(tunnel);
	return error;
}

static int remove_tunnel(struct host_cpu *cpu, const char *name)
{
	struct tunnel *tunnel = NULL, **slot;
	int i;

	spin_lock_bh(&cpu->lock);
	slot = slot_of(cpu, name);
	if (slot) {
		tunnel = *slot;
		*slot = NULL;
		for (i = 0; i < DIRECTIONS; i++) {
			empty(cpu, &tunnel->queues[i]);
			if (cpu->served_of == &tunnel->queues[i])
				cpu->served_of = NULL;
		}
	}
	spin_unlock_bh(&cpu->lock);
	free_tunnel(tunnel);
	return tunnel ? 0 : -ENODEV;
}

static int bring_others(struct host_cpu *cpu, const char *name, const u32 *numbers, u64 seed)
{
	struct tunnel **slot;

	spin_lock_bh(&cpu->lock);
	slot = slot_of(cpu, name);
	if (slot) {
		struct tunnel *tunnel = *slot;

		prandom_seed_state(&tunnel->random, seed);
		tunnel->users = numbers[0];
		tunnel->mean_ns = numbers[1];
		tunnel->bytes = numbers[2];
		tunnel->ack_bytes = numbers[3];
		tunnel->rtt_ns = numbers[4];
		tunnel->share = FULL;
		tunnel->next_ns = ktime_get_ns();
	}
	spin_unlock_bh(&cpu->lock);
	return slot ? 0 : -ENODEV;
}

static int set_limit(struct host_cpu *cpu, u32 limit)
{
	int error = 0;
	u32 i;

	if (!limit || limit > LIMIT_MAX)
		return -EINVAL;
	spin_lock_bh(&cpu->lock);
	for (i = 0; i < TUNNELS; i++)
		if (cpu->tunnels[i])
			error = -EBUSY;
	if (!error)
		cpu->limit = limit;
	spin_unlock_bh(&cpu->lock);
	return error;
}

static int model_write(struct file *file, char *text, size_t size)
{
	struct seq_file *seq = file->private_data;
	struct net *net = seq_file_single_net(seq);
	struct host_cpu *cpu = cpu_of(net);
	char name[IFNAMSIZ];
	u32 n[5];
	u64 seed;
	char end;

	if (sscanf(text, "limit %u %c", n, &end) == 1)
		return set_limit(cpu, n[0]);
	if (sscanf(text, "tunnel %15s %u %u %u %u %c", name, n, n + 1, n + 2, n + 3, &end) == 5)
		return add_tunnel(net, cpu, name, n);
	if (sscanf(text, "others %15s %u %u %u %u %u %llu %c", name, n, n + 1, n + 2, n + 3, n + 4, &seed, &end) == 7)
		return n[0] && n[4] ? bring_others(cpu, name, n, seed) : -EINVAL;
	if (sscanf(text, "remove %15s %c", name, &end) == 1)
		return remove_tunnel(cpu, name);
	return -EINVAL;
}

static int model_show(struct seq_file *file, void *unused)
{
	struct host_cpu *cpu = cpu_of(seq_file_single_net(file));
	u32 i;

	spin_lock_bh(&cpu->lock);
	advance(cpu, ktime_get_ns());
	seq_printf(file, "busy_ns %llu\nbusiest_ns %llu\n", cpu->busy_ns, cpu->busiest_ns);
	for (i = 0; i < TUNNELS * DIRECTIONS; i++) {
		const struct tunnel *tunnel = cpu->tunnels[i / DIRECTIONS];
		const struct queue *queue = tunnel ? &tunnel->queues[i % DIRECTIONS] : NULL;

		if (queue)
			seq_printf(file, "%s %s %llu %llu %llu %llu %llu %llu\n", tunnel->name, names[i % DIRECTIONS],
				   queue->packets, queue->bytes, queue->dropped, queue->longest_ns, queue->others,
				   queue->others_dropped);
	}
	spin_unlock_bh(&cpu->lock);
	return 0;
}

static int __net_init model_net_init(struct net *net)
{
	struct host_cpu *cpu = cpu_of(net);

	spin_lock_init(&cpu->lock);
	__skb_queue_head_init(&cpu->done);
	cpu->limit = LIMIT_DEFAULT;
	cpu->done_ns = U64_MAX;
	if (!proc_create_net_single_write("cpu_model", 0600, net->proc_net, model_show, model_write, NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit model_net_exit(struct net *net)
{
	struct host_cpu *cpu = cpu_of(net);
	u32 i;

	remove_proc_entry("cpu_model", net->proc_net);
	for (i = 0; i < TUNNELS; i++)
		free_tunnel(cpu->tunnels[i]);
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
MODULE_DESCRIPTION("A host's CPU as a server of packets, for User Mode Linux in virtual time");
MODULE_LICENSE("GPL");
