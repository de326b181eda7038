// SPDX-License-Identifier: GPL-2.0
/*
 * A congestion control that is loaded only if every check of it holds
 *
 * control.h is the source of bbr2 or bbr3, as it is. Each check makes a socket
 * of its own, tells the control what the kernel would, and looks at what it has
 * made of it: cases that a transfer meets seldom, or by chance. The names are
 * those of the findings that asked for them.
 */
#include <linux/module.h>
#undef module_init
#undef module_exit
#define module_init(function)
#define module_exit(function)
#include "control.h"

#define MSS		1448
#define RTT_US		500000
#define CWND		400
#define FULL_BW		((u32)(((u64)CWND << BW_SCALE) / RTT_US))
#define ROUND		CWND

static int failures;

#define check(condition)						\
	do {								\
		if (!(condition)) {					\
			failures++;					\
			pr_err("%s: not so: %s\n", __func__,		\
			       #condition);				\
		}							\
	} while (0)

/* The sender of a transfer over GEO, before its first data */
static struct sock *new_sock(void)
{
	struct tcp_sock *tp = kzalloc_obj(*tp, GFP_KERNEL | __GFP_NOFAIL);
	struct sock *sk = (struct sock *)tp;

	sk->sk_max_pacing_rate = ~0UL;
	sk->sk_pacing_shift = 10;
	inet_csk(sk)->icsk_ca_initialized = 1;
	tp->mss_cache = MSS;
	tp->snd_cwnd_clamp = ~0U;
	tp->rx_opt.sack_ok = 1;
	tp->srtt_us = RTT_US << 3;
	tp->tcp_mstamp = USEC_PER_SEC;
	tp->delivered_mstamp = USEC_PER_SEC;
	tp->delivered = 1;
	minmax_reset(&tp->rtt_min, tcp_jiffies32, RTT_US);
	tcp_snd_cwnd_set(tp, CWND);
	bbr_init(sk);
	return sk;
}

/* The same, in the middle of it: the bandwidth is known, the window full */
static struct sock *sock_in(enum bbr_state state)
{
	struct sock *sk = new_sock();
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->full_bw_reached = 1;
	bbr->max_bw[1] = FULL_BW;
	bbr->state = state;
	bbr->cycle_stamp_us = tcp_sk(sk)->tcp_mstamp;
	bbr->probe_wait_ms = PROBE_WAIT_BASE_MS;
	tcp_sk(sk)->packets_out = CWND;
	tcp_sk(sk)->max_packets_out = CWND;
	return sk;
}

/*
 * `acked` packets that were sent a round ago, in `interval_us`: `marked` of them
 * have a CE mark, and `lost` more were lost
 */
static void ack_with(struct sock *sk, u32 acked, u32 interval_us, u32 marked,
		     u32 lost)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct rate_sample sample = {
		.prior_delivered = tp->delivered - min(tp->delivered, ROUND),
		.delivered = acked,
		.delivered_ce = marked,
		.losses = lost,
		.interval_us = interval_us,
		.rtt_us = ((struct bbr *)inet_csk_ca(sk))->min_rtt_us,
		.acked_sacked = acked,
		.prior_in_flight = tp->packets_out,
	};

	tp->lost += lost;
	tp->delivered += acked;
	tp->tcp_mstamp += RTT_US / ROUND * acked;
	tp->delivered_mstamp = tp->tcp_mstamp;
#ifdef TCP_CONG_CONTROL_HAS_SAMPLE_ALONE
	bbr_main(sk, &sample);
#else
	bbr_main(sk, 0, 0, &sample);
#endif
}

static void ack(struct sock *sk, u32 acked, u32 interval_us)
{
	ack_with(sk, acked, interval_us, 0, 0);
}

static void one_round(struct sock *sk)
{
	int packet;

	for (packet = 0; packet < ROUND; packet++)
		ack(sk, 1, RTT_US / ROUND);
}

/* As tcp_enter_loss() */
static void time_out(struct sock *sk, u32 lost)
{
	struct tcp_sock *tp = tcp_sk(sk);

	bbr_ssthresh(sk);
	tp->lost += lost;
	tcp_snd_cwnd_set(tp, 1);
	bbr_set_state(sk, TCP_CA_Loss);
	inet_csk(sk)->icsk_ca_state = TCP_CA_Loss;
}

/* 5.5.10.2: rs->losses, which is 0 here, misses what a timer marks */
static void losses_between_acks_count(void)
{
	struct sock *sk = sock_in(CRUISE);
	struct bbr *bbr = inet_csk_ca(sk);

	one_round(sk);
	check(bbr->bw_shortterm == ANY_BW);
	tcp_sk(sk)->lost += 20;
	ack(sk, 1, RTT_US / ROUND);
	check(bbr->is_loss_in_round);
	one_round(sk);
	one_round(sk);
	check(bbr->bw_shortterm < ANY_BW);
	check(bbr->inflight_shortterm < ANY_INFLIGHT);
	kfree(sk);
}

/* 5.5.10.3, 5.6.4.4: the window of one packet is no measure of the path */
static void a_timeout_keeps_what_the_path_holds(void)
{
	struct sock *sk = sock_in(CRUISE);
	struct bbr *bbr = inet_csk_ca(sk);

	time_out(sk, 5);
	check(bbr->inflight_shortterm == CWND);
	check(bbr->prior_cwnd == CWND);
	kfree(sk);
}

/* 5.5.11.2: the model is that of before, but a probe that they ended is over */
static void spurious_losses_leave_the_model(void)
{
	struct sock *sk = sock_in(UP);
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->inflight_longterm = 2 * CWND;
	bbr->is_bw_probe_sample = 1;
	bbr->bw_shortterm = FULL_BW / 2;
	bbr_ssthresh(sk);
	ack_with(sk, 1, RTT_US / ROUND, 0, CWND / 4);
	check(bbr->state == DOWN);
	check(bbr->inflight_longterm < 2 * CWND);
	bbr->bw_shortterm = 1;
	tcp_snd_cwnd_set(tcp_sk(sk), 4);
	tcp_snd_cwnd_set(tcp_sk(sk), bbr_undo_cwnd(sk));
	check(tcp_snd_cwnd(tcp_sk(sk)) == CWND);
	check(bbr->inflight_longterm == 2 * CWND);
	check(bbr->bw_shortterm == FULL_BW / 2);
	check(bbr->state == DOWN);
	kfree(sk);
}

/* An equal round-trip time is a new minimum for bbr2, and none for bbr3 */
static void a_tie_is_a_new_minimum_of_version_2(void)
{
	struct sock *sk = sock_in(CRUISE);
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->probe_rtt_min_stamp = tcp_jiffies32 - HZ;
	ack(sk, 1, RTT_US / ROUND);
	check((bbr->probe_rtt_min_stamp == tcp_jiffies32) ==
	      (BBR_VERSION == 2));
	kfree(sk);
}

/* v2alpha's ends after a round with 1.25 BDP in flight, v3's after three rounds */
static void a_probe_ends_when_the_bandwidth_does_not_grow(void)
{
	struct sock *sk = sock_in(UP);
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->full_bw = FULL_BW;
	tcp_sk(sk)->packets_out = 2 * CWND;
	one_round(sk);
	check(bbr->state == UP);
	one_round(sk);
	check(bbr->state == (BBR_VERSION == 2 ? DOWN : UP));
	one_round(sk);
	one_round(sk);
	check(bbr->state == DOWN);
	kfree(sk);
}

/* Startup after a round in recovery with `events` times ten losses */
static bool is_full_after(int events, u8 ca_state)
{
	struct sock *sk = new_sock();
	struct bbr *bbr = inet_csk_ca(sk);
	bool is_full;

	bbr->max_bw[1] = FULL_BW;
	one_round(sk);
	inet_csk(sk)->icsk_ca_state = ca_state;
	while (events-- > 0)
		ack_with(sk, 1, RTT_US / ROUND, 0, 10);
	one_round(sk);
	is_full = bbr->full_bw_reached;
	kfree(sk);
	return is_full;
}

/* 5.3.1.3: v2alpha ends Startup by eight events, v3 by six */
static void scattered_losses_end_startup(void)
{
	check(!is_full_after(STARTUP_FULL_LOSS_COUNT - 1, TCP_CA_Recovery));
	check(is_full_after(STARTUP_FULL_LOSS_COUNT, TCP_CA_Recovery));
	check(!is_full_after(STARTUP_FULL_LOSS_COUNT, TCP_CA_Open));
}

/* What the marks of half of the packets of two rounds leave of the window */
static u32 inflight_after_marks(bool is_enabled, u32 min_rtt_us)
{
	struct sock *sk = sock_in(CRUISE);
	struct bbr *bbr = inet_csk_ca(sk);
	u32 inflight;

	ecn_enable = is_enabled;
	bbr->min_rtt_us = min_rtt_us;
	bbr->probe_rtt_min_us = min_rtt_us;
	one_round(sk);
	ack_with(sk, 20, RTT_US / 20, 10, 0);
	inflight = bbr->inflight_shortterm;
	check(bbr->bw_shortterm == ANY_BW);
	check(inflight == ANY_INFLIGHT || bbr->ecn_alpha < GAIN(100));
	ecn_enable = false;
	kfree(sk);
	return inflight;
}

/* Only if they are enabled, and up to 5 ms: the average share, times a third */
static void marks_cut_what_is_in_flight_of_short_paths(void)
{
	check(inflight_after_marks(false, 3000) == ANY_INFLIGHT);
	check(inflight_after_marks(true, 5001) == ANY_INFLIGHT);
	check(inflight_after_marks(true, 5000) < ANY_INFLIGHT);
}

/* tcp_process_tlp_ack(): only version 3 takes notice */
static void a_loss_that_a_probe_has_mended_is_one(void)
{
	struct sock *sk = sock_in(CRUISE);
	struct bbr *bbr = inet_csk_ca(sk);

	one_round(sk);
	bbr_set_state(sk, TCP_CA_CWR);
	check(!bbr->is_loss_in_round);
	tcp_sk(sk)->tlp_retrans = 1;
	bbr_set_state(sk, TCP_CA_CWR);
	check(bbr->is_loss_in_round == (BBR_VERSION == 3));
	kfree(sk);
}

/* 5.3.3.9: tcp_is_cwnd_limited() is true of any flow below ssthresh */
static void only_a_full_window_raises_the_longterm_limit(void)
{
	struct sock *sk = sock_in(UP);
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->inflight_longterm = CWND;
	bbr->probe_up_rounds = 5;
	check(tcp_is_cwnd_limited(sk));
	ack(sk, 100, RTT_US / 4);
	check(bbr->inflight_longterm == CWND);
	bbr->state = UP;
	tcp_sk(sk)->is_cwnd_limited = 1;
	tcp_snd_cwnd_set(tcp_sk(sk), CWND);
	ack(sk, 100, RTT_US / 4);
	check(bbr->inflight_longterm > CWND);
	kfree(sk);
}

/* The authors' code resets the signals there; the drafts do not say */
static void losses_of_startup_are_not_those_of_drain(void)
{
	struct sock *sk = new_sock();
	struct bbr *bbr = inet_csk_ca(sk);

	tcp_sk(sk)->packets_out = 3 * CWND;
	bbr->max_bw[1] = FULL_BW;
	bbr->full_bw = FULL_BW;
	one_round(sk);
	tcp_sk(sk)->lost += 3;
	ack(sk, 1, RTT_US / ROUND);
	check(bbr->state == STARTUP && bbr->is_loss_in_round);
	bbr->full_bw_reached = 1;
	ack(sk, 1, RTT_US / ROUND);
	check(bbr->state == DRAIN);
	one_round(sk);
	check(bbr->state == DRAIN);
	check(bbr->bw_shortterm == ANY_BW);
	check(bbr->inflight_shortterm == ANY_INFLIGHT);
	kfree(sk);
}

/* 5.6.4.2: a BDP of 3.2 packets needs four */
static void a_bdp_is_rounded_up(void)
{
	struct sock *sk = sock_in(CRUISE);
	struct bbr *bbr = inet_csk_ca(sk);
	u32 bw = (u32)((16ULL << BW_SCALE) / 5 / RTT_US);

	check(bdp(sk, bw, GAIN(100)) == 4);
	check(bdp(sk, FULL_BW, GAIN(100)) == CWND);
	bbr->min_rtt_us = ~0U;
	check(bdp(sk, FULL_BW, GAIN(100)) == TCP_INIT_CWND);
	kfree(sk);
}

/* 5.5.9: not more than a window */
static void aggregation_is_limited_by_the_window(void)
{
	struct sock *sk = sock_in(CRUISE);
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->max_bw[1] = 1;
	ack(sk, 3 * CWND, RTT_US);
	check(max(bbr->extra_acked[0], bbr->extra_acked[1]) <= CWND);
	check(max(bbr->extra_acked[0], bbr->extra_acked[1]) > CWND / 2);
	kfree(sk);
}

/* 5.3.3.9: also of a window of more packets than 12 bits count */
static void a_large_window_grows_by_its_slope(void)
{
	struct sock *sk = sock_in(UP);
	struct bbr *bbr = inet_csk_ca(sk);
	struct rate_sample sample = { .acked_sacked = 20000 };

	tcp_snd_cwnd_set(tcp_sk(sk), 20000);
	tcp_sk(sk)->is_cwnd_limited = 1;
	bbr->inflight_longterm = 15000;
	bbr->probe_up_rounds = 1;
	probe_inflight_longterm_upward(sk, &sample);
	check(bbr->inflight_longterm == 15001);
	sample.acked_sacked = 10000;
	probe_inflight_longterm_upward(sk, &sample);
	check(bbr->inflight_longterm == 15001);
	probe_inflight_longterm_upward(sk, &sample);
	check(bbr->inflight_longterm == 15002);
	kfree(sk);
}

/* A packet in 17 s is less than one unit of bandwidth */
static void a_bandwidth_is_never_zero(void)
{
	struct sock *sk = new_sock();
	struct rate_sample sample = {
		.delivered = 1,
		.interval_us = 17 * USEC_PER_SEC,
	};

	check(bbr_sample(sk, &sample).bw == 1);
	kfree(sk);
}

/* The kernel's first call of cong_control may come before that of init */
static void the_ack_of_a_syn_changes_nothing(void)
{
	struct sock *sk = new_sock();
	struct bbr *bbr = inet_csk_ca(sk);
	struct bbr before = *bbr;
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	inet_csk(sk)->icsk_ca_initialized = 0;
	ack(sk, 1, RTT_US);
	check(!memcmp(&before, bbr, sizeof(before)));
	check(tcp_snd_cwnd(tcp_sk(sk)) == cwnd);
	kfree(sk);
}

int init_module(void)
{
	losses_between_acks_count();
	a_timeout_keeps_what_the_path_holds();
	spurious_losses_leave_the_model();
	a_tie_is_a_new_minimum_of_version_2();
	a_probe_ends_when_the_bandwidth_does_not_grow();
	scattered_losses_end_startup();
	marks_cut_what_is_in_flight_of_short_paths();
	a_loss_that_a_probe_has_mended_is_one();
	only_a_full_window_raises_the_longterm_limit();
	losses_of_startup_are_not_those_of_drain();
	a_bdp_is_rounded_up();
	aggregation_is_limited_by_the_window();
	a_large_window_grows_by_its_slope();
	a_bandwidth_is_never_zero();
	the_ack_of_a_syn_changes_nothing();
	if (failures)
		return -EINVAL;
	strscpy(bbr.name, "checked");
	return bbr_register();
}

void cleanup_module(void)
{
	bbr_unregister();
}
