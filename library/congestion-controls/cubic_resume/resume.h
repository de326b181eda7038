/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Careful Resume (RFC 9959, which was draft-ietf-tsvwg-careful-resume): the
 * saved parameters, and when a connection may use them. Comments name the
 * document's phases. What a connection does with them is its congestion
 * control's: tcp_cubic_resume.c, bbr_resume.h.
 *
 * Each network namespace has a table of its own: one set of parameters for a
 * pair of addresses ("Remote Endpoint"), for lifetime_s. /proc/net/<module>
 * shows it and counts what became of it; a line written to it empties it.
 */
#include <linux/jiffies.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#define RESUME_SETS_MAX		64	/* the oldest makes room */
#define RESUME_LEAST_CWND	(4 * TCP_INIT_CWND)	/* less is not worth it */
#define RESUME_MOST_RTT_RATIO	10

static unsigned int lifetime_s = 3600;
module_param(lifetime_s, uint, 0644);
MODULE_PARM_DESC(lifetime_s, "how long saved parameters are good, in s; 0: none are saved or used");

static unsigned int max_jump = 10000;
module_param(max_jump, uint, 0644);
MODULE_PARM_DESC(max_jump, "the largest window that a connection jumps to, in packets");

enum resume_phase {
	RESUME_NONE,		/* not initialized: all bytes are 0 */
	RESUME_RECONNAISSANCE,
	RESUME_UNVALIDATED,
	RESUME_VALIDATING,
	RESUME_RETREAT,
	RESUME_NORMAL,
};

enum resume_count {
	COUNT_SAVED,
	COUNT_RESUMED,		/* a connection has jumped */
	COUNT_VALIDATED,	/* without congestion */
	COUNT_RETREATED,	/* with congestion */
	COUNT_RATE_LIMITED,	/* had less to send than the jump */
	COUNT_OTHER_RTT,	/* the RTT is not that of the saved path */
	COUNT_EXPIRED,
	COUNT_IN_USE,		/* another connection uses the set */
	RESUME_COUNTS,
};

static const char * const resume_count_names[] = {
	[COUNT_SAVED] = "saved",
	[COUNT_RESUMED] = "resumed",
	[COUNT_VALIDATED] = "validated",
	[COUNT_RETREATED] = "retreated",
	[COUNT_RATE_LIMITED] = "rate_limited",
	[COUNT_OTHER_RTT] = "other_rtt",
	[COUNT_EXPIRED] = "expired",
	[COUNT_IN_USE] = "in_use",
};

struct resume_set {
	struct in6_addr	local;
	struct in6_addr	remote;
	unsigned long	stamp;		/* jiffies */
	u32		cwnd;		/* saved_cwnd in packets; 0: no set */
	u32		rtt_us;		/* saved_rtt */
	bool		is_in_use;
};

struct resume_net {
	spinlock_t		lock;	/* for all below */
	u32			counts[RESUME_COUNTS];
	struct resume_set	sets[RESUME_SETS_MAX];
};

static unsigned int resume_net_id;

static struct resume_net *resume_of(const struct sock *sk)
{
	return net_generic(sock_net(sk), resume_net_id);
}

static void resume_addresses(const struct sock *sk, struct resume_set *set)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		set->local = sk->sk_v6_rcv_saddr;
		set->remote = sk->sk_v6_daddr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, &set->local);
	ipv6_addr_set_v4mapped(sk->sk_daddr, &set->remote);
}

/* The set of this connection's addresses, or NULL */
static struct resume_set *resume_find(const struct sock *sk)
{
	struct resume_net *net = resume_of(sk);
	struct resume_set own, *set;

	resume_addresses(sk, &own);
	for (set = net->sets; set < net->sets + RESUME_SETS_MAX; set++)
		if (set->cwnd && ipv6_addr_equal(&set->local, &own.local) &&
		    ipv6_addr_equal(&set->remote, &own.remote))
			return set;
	return NULL;
}

static struct resume_set *resume_room(struct resume_net *net)
{
	struct resume_set *set, *oldest = net->sets;

	for (set = net->sets; set < net->sets + RESUME_SETS_MAX; set++) {
		if (!set->cwnd)
			return set;
		if (time_before(set->stamp, oldest->stamp))
			oldest = set;
	}
	return oldest;
}

static bool resume_is_expired(const struct resume_set *set)
{
	return time_after(jiffies, set->stamp +
				   (unsigned long)READ_ONCE(lifetime_s) * HZ);
}

/*
 * Observing: a connection that ends has filled a pipe of `cwnd` packets with a
 * minimum RTT of `rtt_us`.
 */
static void resume_save(const struct sock *sk, u32 cwnd, u32 rtt_us)
{
	struct resume_net *net = resume_of(sk);
	struct resume_set *set;

	if (!READ_ONCE(lifetime_s) || cwnd < RESUME_LEAST_CWND || !rtt_us ||
	    rtt_us == ~0U)
		return;
	spin_lock_bh(&net->lock);
	set = resume_find(sk);
	if (!set) {
		set = resume_room(net);
		set->is_in_use = false;
	}
	resume_addresses(sk, set);
	set->stamp = jiffies;
	set->cwnd = cwnd;
	set->rtt_us = rtt_us;
	net->counts[COUNT_SAVED]++;
	spin_unlock_bh(&net->lock);
}

/* Whether the network has shown any congestion since the connection began */
static bool resume_is_congested(const struct tcp_sock *tp)
{
	return tp->lost || tp->total_retrans || tp->delivered_ce;
}

/*
 * The end of the Reconnaissance: jump_cwnd, and the connection has the set to
 * itself until resume_give_back(). 0 if there is no set, or
 * none that this connection may use: it does not ask again.
 */
static u32 resume_take(const struct sock *sk, u32 *saved_rtt_us)
{
	struct resume_net *net = resume_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = tcp_min_rtt(tp), jump = 0;
	struct resume_set *set;

	spin_lock_bh(&net->lock);
	set = resume_find(sk);
	if (!set)
		goto unlock;
	if (resume_is_expired(set)) {
		set->cwnd = 0;
		net->counts[COUNT_EXPIRED]++;
	} else if (set->is_in_use) {
		net->counts[COUNT_IN_USE]++;
	} else if (rtt_us <= set->rtt_us / 2 ||
		   rtt_us / RESUME_MOST_RTT_RATIO > set->rtt_us) {
		net->counts[COUNT_OTHER_RTT]++;
	} else {
		jump = min(set->cwnd / 2, READ_ONCE(max_jump));
		if (jump <= tcp_snd_cwnd(tp)) {
			jump = 0;
			goto unlock;
		}
		*saved_rtt_us = set->rtt_us;
		set->is_in_use = true;
		net->counts[COUNT_RESUMED]++;
	}
unlock:
	spin_unlock_bh(&net->lock);
	return jump;
}

/*
 * The connection no longer uses the set. After congestion nobody may ("Removing
 * saved information"). RESUME_COUNTS: it has ended too early to tell.
 */
static void resume_give_back(const struct sock *sk, enum resume_count result)
{
	struct resume_net *net = resume_of(sk);
	struct resume_set *set;

	spin_lock_bh(&net->lock);
	set = resume_find(sk);
	if (set)
		set->is_in_use = false;
	if (set && result == COUNT_RETREATED)
		set->cwnd = 0;
	if (result < RESUME_COUNTS)
		net->counts[result]++;
	spin_unlock_bh(&net->lock);
}

static int resume_show(struct seq_file *file, void *unused)
{
	struct resume_net *net = net_generic(seq_file_single_net(file),
					     resume_net_id);
	const struct resume_set *set;
	int count;

	spin_lock_bh(&net->lock);
	for (count = 0; count < RESUME_COUNTS; count++)
		seq_printf(file, "%s %u\n", resume_count_names[count],
			   net->counts[count]);
	for (set = net->sets; set < net->sets + RESUME_SETS_MAX; set++)
		if (set->cwnd)
			seq_printf(file, "from %pI6c to %pI6c cwnd %u rtt_us %u age_s %lu%s\n",
				   &set->local, &set->remote, set->cwnd,
				   set->rtt_us, (jiffies - set->stamp) / HZ,
				   set->is_in_use ? " in use" : "");
	spin_unlock_bh(&net->lock);
	return 0;
}

/* What is written does not matter: the table is emptied */
static int resume_flush(struct file *file, char *unused, size_t size)
{
	struct seq_file *shown = file->private_data;
	struct resume_net *net = net_generic(seq_file_single_net(shown),
					     resume_net_id);

	spin_lock_bh(&net->lock);
	memset(net->sets, 0, sizeof(net->sets));
	spin_unlock_bh(&net->lock);
	return 0;
}

static int __net_init resume_net_init(struct net *namespace)
{
	struct resume_net *net = net_generic(namespace, resume_net_id);

	spin_lock_init(&net->lock);
	if (!proc_create_net_single_write(KBUILD_MODNAME, 0644,
					  namespace->proc_net, resume_show,
					  resume_flush, NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit resume_net_exit(struct net *namespace)
{
	remove_proc_entry(KBUILD_MODNAME, namespace->proc_net);
}

static struct pernet_operations resume_net_ops = {
	.init	= resume_net_init,
	.exit	= resume_net_exit,
	.id	= &resume_net_id,
	.size	= sizeof(struct resume_net),
};

/* The tables, when the module is loaded and unloaded */
static int resume_open(void)
{
	return register_pernet_subsys(&resume_net_ops);
}

static void resume_close(void)
{
	unregister_pernet_subsys(&resume_net_ops);
}
