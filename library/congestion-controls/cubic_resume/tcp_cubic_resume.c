// SPDX-License-Identifier: GPL-2.0
/*
 * CUBIC with Careful Resume (RFC 9959, whose phases the comments name)
 *
 * Everything that is CUBIC is the kernel's own: each function calls that of
 * "cubic" and adds what the phase of Careful Resume requires. Without saved
 * parameters every window is CUBIC's.
 *
 *   Reconnaissance -> Unvalidated -> Validating -> Normal
 *                         |              |           ^
 *                         +--------------+-> Retreat +
 */
#include <linux/module.h>
#include <linux/net.h>
#include <net/tcp.h>

#include "resume.h"

#define CUBIC_PRIVATE	64	/* 60 bytes are used from Linux 6.1 to 7.2 */
#define CWND_MIN	2U
#define NO_PROPORTION	(~0U)

/* Behind what CUBIC has in the socket's private area */
struct resume {
	unsigned long	max_pacing_rate;	/* the application's */
	u32		saved_rtt_us;
	u32		mark;		/* sequence number; see the phases */
	u32		delivered;	/* by when the phase, or round, began */
	u32		pipe;		/* see pipe_size(); Normal: saved_cwnd */
	u32		began_us;	/* the phase, or round */
	u8		phase;
	bool		is_pacing;	/* only for the Unvalidated Phase */
	bool		is_pipe_known;
};

static const struct tcp_congestion_ops *cubic;

static struct resume *resume_ca(const struct sock *sk)
{
	return inet_csk_ca(sk) + CUBIC_PRIVATE;
}

static void begin_round(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);

	resume->mark = tp->snd_nxt;
	resume->delivered = tp->delivered;
	resume->began_us = tp->tcp_mstamp;
}

static void begin_normal(struct sock *sk)
{
	struct resume *resume = resume_ca(sk);

	resume->phase = RESUME_NORMAL;
	resume->pipe = 0;
	begin_round(sk);
}

/*
 * Observing: what a round delivers in a minimum RTT. The RTT has the queue in
 * it, which is no capacity; nor is a round that ends with nothing more to send.
 */
static void observe_round(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);
	u32 elapsed_us = (u32)tp->tcp_mstamp - resume->began_us;
	u64 volume = (u64)(tp->delivered - resume->delivered) * tcp_min_rtt(tp);

	if (before(tp->snd_una, resume->mark))
		return;
	if (before(tp->snd_nxt, tp->write_seq) && elapsed_us)
		resume->pipe = div_u64(volume, elapsed_us);
	begin_round(sk);
}

/*
 * PipeSize: what was in flight before the jump, then what has been delivered
 * since. A retransmission tells nothing of the pipe. In the Reconnaissance
 * `delivered` is what the count is when the initial window has been.
 */
static u32 pipe_size(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct resume *resume = resume_ca(sk);
	s32 acked = tp->delivered - resume->delivered - tp->total_retrans;

	if (resume->is_pipe_known)
		return resume->pipe;
	return max_t(s32, resume->pipe, acked);
}

/* The jump in the current RTT; the kernel itself would pace twice as fast */
static void begin_pacing(struct sock *sk, u32 jump)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);
	u64 rate = (u64)jump * tp->mss_cache * (USEC_PER_SEC << 3);

	resume->max_pacing_rate = READ_ONCE(sk->sk_max_pacing_rate);
	rate = div_u64(rate, max(tp->srtt_us, 1U));
	WRITE_ONCE(sk->sk_max_pacing_rate,
		   min_t(u64, rate, resume->max_pacing_rate));
	resume->is_pacing = cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE,
				    SK_PACING_NEEDED) == SK_PACING_NONE;
}

static void end_pacing(struct sock *sk)
{
	struct resume *resume = resume_ca(sk);

	WRITE_ONCE(sk->sk_max_pacing_rate, resume->max_pacing_rate);
	if (resume->is_pacing)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED,
			SK_PACING_NONE);
}

/*
 * Reconnaissance Phase: until the initial window has been acknowledged, and the
 * window then is what keeps the connection from sending more.
 */
static void reconnoitre(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);
	u32 jump;

	if (resume_is_congested(tp)) {
		begin_normal(sk);
		return;
	}
	if (before(tp->delivered, resume->delivered) || !tp->is_cwnd_limited)
		return;
	jump = resume_take(sk, &resume->saved_rtt_us);
	if (!jump) {
		begin_normal(sk);
		return;
	}
	resume->phase = RESUME_UNVALIDATED;
	resume->pipe = tcp_packets_in_flight(tp);
	begin_round(sk); /* with the first unvalidated packet */
	begin_pacing(sk, jump);
	tcp_snd_cwnd_set(tp, min(jump, tp->snd_cwnd_clamp));
}

/* Safe Retreat Phase: "Re-initializing CWND" */
static u32 begin_retreat(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);
	u32 pipe = max(pipe_size(sk), CWND_MIN);

	resume_give_back(sk, COUNT_RETREATED);
	if (resume->phase == RESUME_UNVALIDATED) {
		end_pacing(sk);
		resume->mark = tp->snd_nxt;
	}
	resume->phase = RESUME_RETREAT;
	tcp_snd_cwnd_set(tp, pipe); /* what CUBIC is to remember */
	pipe = min(cubic->ssthresh(sk), max(pipe / 2, CWND_MIN));
	tcp_snd_cwnd_set(tp, pipe);
	return pipe;
}

/* Safe Retreat Phase: all unvalidated packets have been delivered or lost */
static void end_retreat(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	WRITE_ONCE(tp->snd_ssthresh, max(pipe_size(sk) / 2, CWND_MIN));
	tp->prior_cwnd = tcp_snd_cwnd(tp);
	begin_normal(sk);
}

static bool is_unvalidated_over(const struct sock *sk, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct resume *resume = resume_ca(sk);
	u32 elapsed_us = (u32)tp->tcp_mstamp - resume->began_us;

	return tcp_packets_in_flight(tp) + acked >= tcp_snd_cwnd(tp) ||
	       after(tp->snd_una, resume->mark) ||
	       elapsed_us > tp->srtt_us >> 3;
}

/* Unvalidated Phase: "Check flight_size" */
static void begin_validating(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);
	u32 in_flight = tcp_packets_in_flight(tp), pipe = pipe_size(sk);

	end_pacing(sk);
	resume->mark = tp->snd_nxt; /* behind the last unvalidated packet */
	if (in_flight < TCP_INIT_CWND || in_flight <= pipe) {
		resume_give_back(sk, COUNT_RATE_LIMITED);
		begin_normal(sk);
		tcp_snd_cwnd_set(tp, max_t(u32, pipe, TCP_INIT_CWND));
		return;
	}
	resume->phase = RESUME_VALIDATING;
	tcp_snd_cwnd_set(tp, in_flight);
}

static void resume_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);

	switch (resume->phase) {
	case RESUME_RECONNAISSANCE:
		reconnoitre(sk);
		if (resume->phase == RESUME_UNVALIDATED)
			return;
		break;
	case RESUME_UNVALIDATED:
		if (tcp_min_rtt(tp) <= resume->saved_rtt_us / 2) {
			WRITE_ONCE(tp->snd_ssthresh, begin_retreat(sk));
			return;
		}
		if (!is_unvalidated_over(sk, acked))
			return;
		begin_validating(sk);
		break;
	case RESUME_VALIDATING:
		if (before(tp->snd_una, resume->mark))
			break;
		resume_give_back(sk, COUNT_VALIDATED);
		begin_normal(sk);
		break;
	case RESUME_RETREAT:
		if (before(tp->snd_una, resume->mark))
			return;
		end_retreat(sk);
		break;
	}
	cubic->cong_avoid(sk, ack, acked);
}

/*
 * Congestion. The kernel brings the window down in proportion to what is
 * delivered, unless what it was before is without measure: then it sends
 * nothing until no more than the new window is in flight.
 */
static u32 resume_ssthresh(struct sock *sk)
{
	struct resume *resume = resume_ca(sk);
	u32 ssthresh;

	switch (resume->phase) {
	case RESUME_UNVALIDATED:
	case RESUME_VALIDATING:
		ssthresh = begin_retreat(sk);
		tcp_sk(sk)->prior_cwnd = NO_PROPORTION;
		return ssthresh;
	case RESUME_RECONNAISSANCE:
		begin_normal(sk);
		break;
	}
	return cubic->ssthresh(sk);
}

/* "The CWND MUST NOT be increased in the Safe Retreat Phase" */
static u32 resume_undo_cwnd(struct sock *sk)
{
	if (resume_ca(sk)->phase == RESUME_RETREAT)
		return tcp_snd_cwnd(tcp_sk(sk));
	return cubic->undo_cwnd(sk);
}

/* "Detecting Persistent Congestion": a timeout ends Careful Resume */
static void resume_set_state(struct sock *sk, u8 new_state)
{
	cubic->set_state(sk, new_state);
	if (new_state == TCP_CA_Loss &&
	    resume_ca(sk)->phase == RESUME_RETREAT) {
		tcp_sk(sk)->prior_cwnd = tcp_sk(sk)->snd_ssthresh;
		begin_normal(sk);
	}
}

static void resume_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (cubic->cwnd_event)
		cubic->cwnd_event(sk, event);
	if (event == CA_EVENT_COMPLETE_CWR &&
	    resume_ca(sk)->phase == RESUME_RETREAT)
		end_retreat(sk);
}

#ifdef TCP_CONG_HAS_TX_START
static void resume_tx_start(struct sock *sk)
{
	cubic->cwnd_event_tx_start(sk);
}
#endif

/*
 * CUBIC of the virtual kernel asks whether it is the socket's control, to know
 * whether it has HyStart (kernel/patches/determinism/cubic-nohystart.patch).
 */
static void resume_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_congestion_ops *own = icsk->icsk_ca_ops;
	struct resume *resume = resume_ca(sk);

	icsk->icsk_ca_ops = cubic;
	cubic->pkts_acked(sk, sample);
	icsk->icsk_ca_ops = own;
	if (resume->phase == RESUME_NORMAL)
		observe_round(sk);
	if (resume->phase == RESUME_RETREAT &&
	    !before(tcp_sk(sk)->snd_una, resume->mark)) {
		resume->pipe = pipe_size(sk);
		resume->is_pipe_known = true;
	}
}

static void resume_init(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);

	cubic->init(sk);
	memset(resume, 0, sizeof(*resume));
	resume->phase = RESUME_RECONNAISSANCE;
	resume->delivered = tp->delivered + tcp_snd_cwnd(tp);
}

/* Observing: at the end, what the last round has shown */
static void resume_release(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = resume_ca(sk);

	switch (resume->phase) {
	case RESUME_UNVALIDATED:
		end_pacing(sk);
		fallthrough;
	case RESUME_VALIDATING:
		resume_give_back(sk, RESUME_COUNTS);
		break;
	case RESUME_RETREAT:
		tp->prior_cwnd = tcp_snd_cwnd(tp);
		break;
	case RESUME_NORMAL:
		resume_save(sk, resume->pipe, tcp_min_rtt(tp));
		break;
	}
	resume->phase = RESUME_NONE;
}

static struct tcp_congestion_ops cubic_resume __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= "cubic_resume",
	.owner		= THIS_MODULE,
	.init		= resume_init,
	.release	= resume_release,
	.ssthresh	= resume_ssthresh,
	.cong_avoid	= resume_cong_avoid,
	.set_state	= resume_set_state,
	.undo_cwnd	= resume_undo_cwnd,
	.cwnd_event	= resume_cwnd_event,
#ifdef TCP_CONG_HAS_TX_START
	.cwnd_event_tx_start = resume_tx_start,
#endif
	.pkts_acked	= resume_pkts_acked,
};

/* The kernel names a congestion control's functions to sockets only */
static int __init find_cubic(void)
{
	struct socket *asks;
	int error;

	error = sock_create_kern(&init_net, PF_INET, SOCK_STREAM, IPPROTO_TCP,
				 &asks);
	if (error)
		return error;
	error = READ_ONCE(asks->ops)->setsockopt(asks, SOL_TCP, TCP_CONGESTION,
						 KERNEL_SOCKPTR("cubic"), 5);
	if (!error) {
		cubic = inet_csk(asks->sk)->icsk_ca_ops;
		if (!try_module_get(cubic->owner))
			error = -ENOENT;
	}
	sock_release(asks);
	return error;
}

static int __init resume_register(void)
{
	int error;

	BUILD_BUG_ON(CUBIC_PRIVATE + sizeof(struct resume) > ICSK_CA_PRIV_SIZE);
	error = find_cubic();
	if (error)
		return error;
	error = resume_open();
	if (error)
		goto put_cubic;
	error = tcp_register_congestion_control(&cubic_resume);
	if (error)
		goto close;
	return 0;

close:
	resume_close();
put_cubic:
	module_put(cubic->owner);
	return error;
}

static void __exit resume_unregister(void)
{
	tcp_unregister_congestion_control(&cubic_resume);
	resume_close();
	module_put(cubic->owner);
}

module_init(resume_register);
module_exit(resume_unregister);

MODULE_AUTHOR("the openbach-run developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("CUBIC with Careful Resume (RFC 9959)");
