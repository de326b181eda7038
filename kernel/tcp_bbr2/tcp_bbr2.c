// SPDX-License-Identifier: GPL-2.0
/*
 * TCP BBR version 2
 *
 * Written from draft-cardwell-iccrg-bbr-congestion-control-02, whose section
 * numbers the comments give; what draft-ietf-ccwg-bbr made clearer since is
 * marked [ccwg]. Names are the draft's, without their prefix "BBR.".
 *
 * Two inputs of the draft are not to be had from Linux: how many packets were
 * lost (rs.lost) and in flight (rs.tx_in_flight) with regard to the moment
 * that the packet just acknowledged was sent. See bbr2_sample().
 *
 * The draft's bw_hi is left out, as in [ccwg]: it never falls below max_bw.
 * So is ECN, which -02 does not specify.
 */
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/random.h>
#include <net/tcp.h>

#define BW_SCALE	24	/* bandwidth is in packets per usec << 24 */
#define GAIN_SCALE	8	/* gains and fractions are << 8 */
#define GAIN(percent)	((percent) * (1 << GAIN_SCALE) / 100)
#define UNLIMITED	(~0U)

/* 2.7 to 2.10: parameters */
#define STARTUP_PACING_GAIN	GAIN(277)	/* 4 * ln(2) */
#define STARTUP_CWND_GAIN	GAIN(200)
#define DRAIN_PACING_GAIN	GAIN(50)	/* 1 / STARTUP_CWND_GAIN */
#define DOWN_PACING_GAIN	GAIN(90)
#define UP_PACING_GAIN		GAIN(125)
#define UP_CWND_GAIN		GAIN(225)	/* [ccwg] */
#define PROBE_RTT_CWND_GAIN	GAIN(50)
#define CWND_GAIN		GAIN(200)
#define LOSS_THRESH		GAIN(2)		/* 5 / 256: 1.95 % */
#define BETA			GAIN(70)
#define HEADROOM		GAIN(15)
#define PACING_MARGIN_PERCENT	1
#define MIN_PIPE_CWND		4U
#define FULL_BW_ROUNDS		3
#define FULL_BW_GROWTH		GAIN(125)
#define STARTUP_FULL_LOSS_COUNT	6		/* [ccwg]; -02 has 3 */
#define MIN_RTT_FILTER_LEN	(10 * HZ)
#define PROBE_RTT_INTERVAL	(5 * HZ)
#define PROBE_RTT_DURATION_MS	200
#define PROBE_WAIT_BASE_US	(2 * USEC_PER_SEC)
#define PROBE_WAIT_RAND_US	(1 * USEC_PER_SEC)
#define RENO_ROUNDS_MAX		63
#define EXTRA_ACKED_ROUNDS	5	/* per half of the window */
#define EXTRA_ACKED_MAX		0xffff
#define ACK_EPOCH_MAX		0xfffff
#define PROBE_UP_CNT_MAX	0xfff
#define MIN_TSO_RATE_BPS	1200000	/* below it bursts are one packet */

/* 4.3: the states; those of ProbeBW are the last four */
enum bbr2_state {
	STARTUP,
	DRAIN,
	PROBE_RTT,
	DOWN,
	CRUISE,
	REFILL,
	UP,
};

/* 4.3.3.6: which round of probing the ACKs that arrive now belong to */
enum bbr2_ack_phase {
	ACKS_INIT,
	ACKS_REFILLING,
	ACKS_PROBE_STARTING,
	ACKS_PROBE_FEEDBACK,
	ACKS_PROBE_STOPPING,
};

struct bbr2 {
	u32	min_rtt_us;
	u32	min_rtt_stamp;		/* jiffies, as the other stamps */
	u32	probe_rtt_min_us;
	u32	probe_rtt_min_stamp;
	u32	probe_rtt_done_stamp;	/* 0: not known yet */
	u32	next_round_delivered;
	u32	max_bw[2];		/* of the last cycle and this one */
	u32	bw_lo;
	u32	bw_latest;
	u32	full_bw;
	u32	inflight_latest;
	u32	inflight_lo;
	u32	inflight_hi;
	u32	loss_round_delivered;	/* delivered and lost when this round */
	u32	loss_round_lost;	/* of losses began, */
	u32	last_round_delivered;	/* and when the last one did */
	u32	last_round_lost;
	u32	cycle_stamp_us;
	u32	prior_cwnd;
	u32	probe_up_cnt;
	u32	extra_acked_stamp_us;
	u32	state:3,
		round_start:1,
		loss_round_start:1,
		loss_in_round:1,
		filled_pipe:1,
		full_bw_count:2,
		ack_phase:3,
		bw_probe_samples:1,
		idle_restart:1,
		probe_rtt_round_done:1,
		prior_ca_state:3,
		has_seen_rtt:1,
		probe_up_rounds:5,
		rounds_since_probe:6;
	u32	probe_wait_us:22,
		loss_events:4,
		extra_acked_rounds:5,
		extra_acked_half:1;
	u32	extra_acked_delivered:20,
		probe_up_acks:12;
	u16	extra_acked[2];		/* maxima of both halves of the window */
};

/* What one ACK tells (5.2) */
struct bbr2_sample {
	const struct rate_sample *rs;
	u32	bw;		/* rs.delivery_rate */
	u32	lost;		/* rs.lost */
	u32	tx_in_flight;	/* rs.tx_in_flight */
};

static u32 scaled(u64 value, u32 gain)
{
	return (value * gain) >> GAIN_SCALE;
}

static bool in_probe_bw(const struct bbr2 *bbr)
{
	return bbr->state >= DOWN;
}

/* 4.5.6.3: raising the bandwidth on purpose, so that losses are no news */
static bool is_probing_bw(const struct bbr2 *bbr)
{
	return bbr->state == STARTUP || bbr->state == REFILL ||
	       bbr->state == UP;
}

static u32 max_bw(const struct bbr2 *bbr)
{
	return max(bbr->max_bw[0], bbr->max_bw[1]);
}

/* 4.5.6.3: BBRBoundBWForModel */
static u32 bound_bw(const struct bbr2 *bbr)
{
	return min(max_bw(bbr), bbr->bw_lo);
}

static u32 pacing_gain(const struct bbr2 *bbr)
{
	static const u32 gains[] = {
		[STARTUP] = STARTUP_PACING_GAIN,
		[DRAIN] = DRAIN_PACING_GAIN,
		[PROBE_RTT] = GAIN(100),
		[DOWN] = DOWN_PACING_GAIN,
		[CRUISE] = GAIN(100),
		[REFILL] = GAIN(100),
		[UP] = UP_PACING_GAIN,
	};

	return gains[bbr->state];
}

static u32 cwnd_gain(const struct bbr2 *bbr)
{
	if (bbr->state == PROBE_RTT)
		return PROBE_RTT_CWND_GAIN;
	return bbr->state == UP ? UP_CWND_GAIN : CWND_GAIN;
}

/* ---- 4.6: control parameters ---- */

/* Bytes per second */
static u64 pacing_rate(struct sock *sk, u32 bw, u32 gain)
{
	u64 rate = (u64)bw * tcp_mss_to_mtu(sk, tcp_sk(sk)->mss_cache);

	rate = (rate * gain) >> GAIN_SCALE;
	rate *= USEC_PER_SEC / 100 * (100 - PACING_MARGIN_PERCENT);
	return min_t(u64, rate >> BW_SCALE, READ_ONCE(sk->sk_max_pacing_rate));
}

/* 4.6.2: until the pipe was full once, the rate only rises */
static void set_pacing_rate(struct sock *sk, u32 bw, u32 gain)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);
	u64 rate = pacing_rate(sk, bw, gain);

	if (bbr->filled_pipe || rate > READ_ONCE(sk->sk_pacing_rate))
		WRITE_ONCE(sk->sk_pacing_rate, rate);
}

/* 4.6.2: BBRInitPacingRate: the initial window in an RTT, 1 ms if unknown */
static void init_pacing_rate(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr2 *bbr = inet_csk_ca(sk);
	u32 rtt_us = USEC_PER_MSEC;
	u64 bw;

	if (tp->srtt_us) {
		rtt_us = max(tp->srtt_us >> 3, 1U);
		bbr->has_seen_rtt = 1;
	}
	bw = div_u64((u64)tcp_snd_cwnd(tp) << BW_SCALE, rtt_us);
	WRITE_ONCE(sk->sk_pacing_rate,
		   pacing_rate(sk, min_t(u64, bw, UNLIMITED), STARTUP_PACING_GAIN));
}

static u32 bbr2_min_tso_segs(struct sock *sk)
{
	return READ_ONCE(sk->sk_pacing_rate) < MIN_TSO_RATE_BPS / 8 ? 1 : 2;
}

/* 4.6.3: the largest burst that goes out at once */
static u32 send_quantum(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 per_ms = READ_ONCE(sk->sk_pacing_rate) >> 10;
	u32 segments = div_u64(min_t(u64, per_ms, GSO_LEGACY_MAX_SIZE - 1),
			       max(tp->mss_cache, 1U));

	return max(segments, bbr2_min_tso_segs(sk));
}

/* 4.6.4.2: gain * bw * min_rtt, rounded up */
static u32 bdp(const struct sock *sk, u32 bw, u32 gain)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	if (bbr->min_rtt_us == UNLIMITED)
		return TCP_INIT_CWND;
	return ((((u64)bw * bbr->min_rtt_us) >> BW_SCALE) * gain +
		(1 << GAIN_SCALE) - 1) >> GAIN_SCALE;
}

/* 4.6.4.2: room for bursts at both ends, and for probing on short paths */
static u32 quantization_budget(struct sock *sk, u32 inflight)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	inflight = max3(inflight, 3 * send_quantum(sk), MIN_PIPE_CWND);
	return bbr->state == UP ? inflight + 2 : inflight;
}

static u32 inflight_at(struct sock *sk, u32 bw, u32 gain)
{
	return quantization_budget(sk, bdp(sk, bw, gain));
}

/* 4.3.3.5: what is left to others while this flow does not probe */
static u32 inflight_with_headroom(const struct bbr2 *bbr)
{
	u32 headroom;

	if (bbr->inflight_hi == UNLIMITED)
		return UNLIMITED;
	headroom = max(scaled(bbr->inflight_hi, HEADROOM), 1U);
	return max(bbr->inflight_hi - min(headroom, bbr->inflight_hi),
		   MIN_PIPE_CWND);
}

static u32 target_inflight(struct sock *sk)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	return min(bdp(sk, bound_bw(bbr), GAIN(100)), tcp_snd_cwnd(tcp_sk(sk)));
}

static u32 probe_rtt_cwnd(const struct sock *sk)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	return max(bdp(sk, bound_bw(bbr), PROBE_RTT_CWND_GAIN), MIN_PIPE_CWND);
}

/* 4.6.4.4 */
static void save_cwnd(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	if (bbr->prior_ca_state < TCP_CA_Recovery && bbr->state != PROBE_RTT)
		bbr->prior_cwnd = cwnd;
	else
		bbr->prior_cwnd = max(bbr->prior_cwnd, cwnd);
}

static void restore_cwnd(struct sock *sk)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), bbr->prior_cwnd));
}

/*
 * 4.6.4.4: BBRModulateCwndForRecovery, and the end of recovery. Without the
 * draft's packet conservation, which the BBRv2 of Linux has not either: a loss
 * soon after ProbeRTT finds half a window in flight, and the window that is
 * conserved then becomes inflight_lo until the next Refill.
 */
static u32 cwnd_in_recovery(struct sock *sk, const struct rate_sample *rs,
			    u32 cwnd)
{
	struct bbr2 *bbr = inet_csk_ca(sk);
	u8 ca_state = inet_csk(sk)->icsk_ca_state;

	if (rs->losses > 0)
		cwnd = max_t(s32, cwnd - rs->losses, 1);
	if (bbr->prior_ca_state >= TCP_CA_Recovery &&
	    ca_state < TCP_CA_Recovery)
		cwnd = max(cwnd, bbr->prior_cwnd);
	bbr->prior_ca_state = ca_state;
	return cwnd;
}

/* 4.6.4.7 */
static u32 bound_cwnd_for_model(const struct bbr2 *bbr, u32 cwnd)
{
	u32 cap = UNLIMITED;

	if (in_probe_bw(bbr) && bbr->state != CRUISE)
		cap = bbr->inflight_hi;
	else if (bbr->state == PROBE_RTT || bbr->state == CRUISE)
		cap = inflight_with_headroom(bbr);
	cap = max(min(cap, bbr->inflight_lo), MIN_PIPE_CWND);
	return min(cwnd, cap);
}

/* 4.6.4.6 */
static void set_cwnd(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr2 *bbr = inet_csk_ca(sk);
	u32 acked = rs->acked_sacked, max_inflight, cwnd = tcp_snd_cwnd(tp);

	if (acked) {
		max_inflight = bdp(sk, bound_bw(bbr), cwnd_gain(bbr));
		max_inflight += max(bbr->extra_acked[0], bbr->extra_acked[1]);
		max_inflight = quantization_budget(sk, max_inflight);
		cwnd = cwnd_in_recovery(sk, rs, cwnd);
		if (bbr->filled_pipe)
			cwnd = min(cwnd + acked, max_inflight);
		else if (cwnd < max_inflight || tp->delivered < TCP_INIT_CWND)
			cwnd += acked;
		cwnd = max(cwnd, MIN_PIPE_CWND);
	}
	if (bbr->state == PROBE_RTT)
		cwnd = min(cwnd, probe_rtt_cwnd(sk));
	cwnd = bound_cwnd_for_model(bbr, cwnd);
	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
}

/* ---- 4.5: the model ---- */

static void start_round(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	bbr->next_round_delivered = tcp_sk(sk)->delivered;
}

/* 4.5.1: packet-timed rounds */
static void update_round(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	bbr->round_start = !before(rs->prior_delivered,
				   bbr->next_round_delivered);
	if (!bbr->round_start)
		return;
	start_round(sk);
	if (bbr->rounds_since_probe < RENO_ROUNDS_MAX)
		bbr->rounds_since_probe++;
}

/*
 * The draft takes tx.lost and tx.in_flight along with every packet (5.2); the
 * kernel has no room for them. Both follow from what it has:
 *
 * Packets lost when the acknowledged one was sent: known at the beginning of
 * the last two rounds, between which it was sent, and taken as proportional to
 * what was delivered in between.
 *
 * Packets in flight when it was sent: each of them has been delivered or lost
 * by now (but for reordering), and rs->delivered counts the former.
 */
static void bbr2_sample(struct sock *sk, const struct rate_sample *rs,
			struct bbr2_sample *sample)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);
	u32 span = bbr->loss_round_delivered - bbr->last_round_delivered;
	u32 part = rs->prior_delivered - bbr->last_round_delivered;
	u32 lost = bbr->last_round_lost;

	if (!before(rs->prior_delivered, bbr->loss_round_delivered))
		lost = bbr->loss_round_lost;
	else if (after(rs->prior_delivered, bbr->last_round_delivered))
		lost += div_u64((u64)part * (bbr->loss_round_lost - lost), span);
	sample->rs = rs;
	sample->lost = tcp_sk(sk)->lost - lost;
	sample->tx_in_flight = rs->delivered + sample->lost;
	sample->bw = min_t(u64, UNLIMITED,
			   div64_long((u64)rs->delivered << BW_SCALE,
				      rs->interval_us));
}

/*
 * BBRNoteLoss [ccwg]: the first loss begins the round whose end adapts to it,
 * so that a whole round shows what is delivered nevertheless.
 */
static void note_loss(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (rs->losses <= 0)
		return;
	if (!bbr->loss_in_round) {
		bbr->loss_round_delivered = tp->delivered;
		bbr->loss_round_lost = tp->lost;
	}
	bbr->loss_in_round = 1;
	if (bbr->loss_events < 15)
		bbr->loss_events++;
}

/* 4.5.6.3: BBRUpdateLatestDeliverySignals */
static void update_latest_delivery(struct sock *sk,
				   const struct bbr2_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr2 *bbr = inet_csk_ca(sk);

	bbr->bw_latest = max(bbr->bw_latest, sample->bw);
	bbr->inflight_latest = max_t(u32, bbr->inflight_latest,
				     sample->rs->delivered);
	bbr->loss_round_start = !before(sample->rs->prior_delivered,
					bbr->loss_round_delivered);
	if (!bbr->loss_round_start)
		return;
	bbr->last_round_delivered = bbr->loss_round_delivered;
	bbr->last_round_lost = bbr->loss_round_lost;
	bbr->loss_round_delivered = tp->delivered;
	bbr->loss_round_lost = tp->lost;
}

static void advance_latest_delivery(struct bbr2 *bbr,
				    const struct bbr2_sample *sample)
{
	if (!bbr->loss_round_start)
		return;
	bbr->bw_latest = sample->bw;
	bbr->inflight_latest = sample->rs->delivered;
}

static void reset_lower_bounds(struct bbr2 *bbr)
{
	bbr->bw_lo = UNLIMITED;
	bbr->inflight_lo = UNLIMITED;
}

static void reset_congestion_signals(struct bbr2 *bbr)
{
	bbr->loss_in_round = 0;
	bbr->loss_events = 0;
	bbr->bw_latest = 0;
	bbr->inflight_latest = 0;
}

/* 4.5.6.3: what a round with losses says of the path as it is now */
static void adapt_lower_bounds(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (is_probing_bw(bbr) || !bbr->loss_in_round)
		return;
	if (bbr->bw_lo == UNLIMITED)
		bbr->bw_lo = max_bw(bbr);
	if (bbr->inflight_lo == UNLIMITED)
		bbr->inflight_lo = tcp_snd_cwnd(tcp_sk(sk));
	bbr->bw_lo = max(bbr->bw_latest, scaled(bbr->bw_lo, BETA));
	bbr->inflight_lo = max(bbr->inflight_latest,
			       scaled(bbr->inflight_lo, BETA));
}

/* 4.5.6.3 and 4.5.2.4: BBRUpdateCongestionSignals, BBRUpdateMaxBw */
static void update_congestion_signals(struct sock *sk,
				      const struct bbr2_sample *sample)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	update_round(sk, sample->rs);
	if (sample->bw >= max_bw(bbr) || !sample->rs->is_app_limited)
		bbr->max_bw[1] = max(bbr->max_bw[1], sample->bw);
	if (bbr->loss_round_start)
		adapt_lower_bounds(sk);
}

/* 4.5.5: how much more than the bandwidth allows is acknowledged at a time */
static void update_ack_aggregation(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr2 *bbr = inet_csk_ca(sk);
	u32 elapsed_us = (u32)tp->delivered_mstamp - bbr->extra_acked_stamp_us;
	u32 expected, delivered, extra;

	if (bbr->round_start) {
		bbr->extra_acked_rounds++;
		if (bbr->extra_acked_rounds >= EXTRA_ACKED_ROUNDS) {
			bbr->extra_acked_rounds = 0;
			bbr->extra_acked_half = !bbr->extra_acked_half;
			bbr->extra_acked[bbr->extra_acked_half] = 0;
		}
	}
	expected = ((u64)bound_bw(bbr) * elapsed_us) >> BW_SCALE;
	if (bbr->extra_acked_delivered <= expected ||
	    bbr->extra_acked_delivered + rs->acked_sacked >= ACK_EPOCH_MAX) {
		bbr->extra_acked_delivered = 0;
		bbr->extra_acked_stamp_us = tp->delivered_mstamp;
		expected = 0;
	}
	delivered = bbr->extra_acked_delivered + rs->acked_sacked;
	bbr->extra_acked_delivered = delivered;
	extra = delivered - min(expected, delivered);
	extra = min3(extra, tcp_snd_cwnd(tp), (u32)EXTRA_ACKED_MAX);
	/* the filter's window is one round until the pipe is full [ccwg] */
	if (!bbr->filled_pipe && bbr->round_start)
		bbr->extra_acked[0] = bbr->extra_acked[1] = 0;
	if (extra > bbr->extra_acked[bbr->extra_acked_half])
		bbr->extra_acked[bbr->extra_acked_half] = extra;
}

/* ---- 4.3.1 and 4.3.2: Startup and Drain ---- */

/* 4.3.1.2: the bandwidth has not grown by a quarter in three rounds */
static void check_full_bandwidth(struct bbr2 *bbr, const struct rate_sample *rs)
{
	if (bbr->filled_pipe || !bbr->round_start || rs->is_app_limited)
		return;
	if (max_bw(bbr) >= scaled(bbr->full_bw, FULL_BW_GROWTH)) {
		bbr->full_bw = max_bw(bbr);
		bbr->full_bw_count = 0;
		return;
	}
	if (++bbr->full_bw_count == FULL_BW_ROUNDS)
		bbr->filled_pipe = 1;
}

static bool is_inflight_too_high(const struct bbr2_sample *sample)
{
	return sample->lost > scaled(sample->tx_in_flight, LOSS_THRESH);
}

/* 4.3.1.3: in recovery for a round, with losses too many and too scattered */
static void check_startup_high_loss(struct sock *sk,
				    const struct bbr2_sample *sample)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (bbr->filled_pipe || !bbr->loss_round_start)
		return;
	if (bbr->prior_ca_state == TCP_CA_Recovery &&
	    bbr->loss_events >= STARTUP_FULL_LOSS_COUNT &&
	    is_inflight_too_high(sample)) {
		bbr->filled_pipe = 1;
		bbr->inflight_hi = max(bdp(sk, max_bw(bbr), GAIN(100)),
				       bbr->inflight_latest);	/* [ccwg] */
	}
}

static void check_startup_done(struct sock *sk, const struct bbr2_sample *sample)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	check_full_bandwidth(bbr, sample->rs);
	check_startup_high_loss(sk, sample);
	if (bbr->state == STARTUP && bbr->filled_pipe)
		bbr->state = DRAIN;
}

/* ---- 4.3.3: ProbeBW ---- */

static bool has_elapsed_in_phase(struct sock *sk, u32 interval_us)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	return (u32)tcp_sk(sk)->tcp_mstamp - bbr->cycle_stamp_us > interval_us;
}

/* 4.3.3.6 */
static void start_down(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	reset_congestion_signals(bbr);
	bbr->probe_up_cnt = UNLIMITED;
	bbr->rounds_since_probe = get_random_u32_below(2);
	bbr->probe_wait_us = PROBE_WAIT_BASE_US +
			     get_random_u32_below(PROBE_WAIT_RAND_US);
	bbr->cycle_stamp_us = tcp_sk(sk)->tcp_mstamp;
	bbr->ack_phase = ACKS_PROBE_STOPPING;
	start_round(sk);
	bbr->state = DOWN;
}

static void start_refill(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	reset_lower_bounds(bbr);
	bbr->probe_up_rounds = 0;
	bbr->probe_up_acks = 0;
	bbr->ack_phase = ACKS_REFILLING;
	start_round(sk);
	bbr->state = REFILL;
}

/* The window grows by 1, 2, 4, ... packets a round */
static void raise_inflight_hi_slope(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);
	u32 growth = 1U << bbr->probe_up_rounds;

	if (bbr->probe_up_rounds < 30)
		bbr->probe_up_rounds++;
	bbr->probe_up_cnt = clamp(tcp_snd_cwnd(tcp_sk(sk)) / growth, 1U,
				  (u32)PROBE_UP_CNT_MAX);
}

static void start_up(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	bbr->ack_phase = ACKS_PROBE_STARTING;
	start_round(sk);
	bbr->cycle_stamp_us = tcp_sk(sk)->tcp_mstamp;
	bbr->state = UP;
	raise_inflight_hi_slope(sk);
}

/* 4.3.3.6: BBRProbeInflightHiUpward */
static void probe_inflight_hi_upward(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr2 *bbr = inet_csk_ca(sk);
	u32 acks, delta;

	if (!tcp_is_cwnd_limited(sk) ||
	    tcp_snd_cwnd(tcp_sk(sk)) < bbr->inflight_hi)
		return;
	acks = bbr->probe_up_acks + rs->acked_sacked;
	delta = acks / bbr->probe_up_cnt;
	bbr->inflight_hi += delta;
	bbr->probe_up_acks = acks - delta * bbr->probe_up_cnt;
	if (bbr->round_start)
		raise_inflight_hi_slope(sk);
}

/* 4.5.6.2: BBRHandleInflightTooHigh */
static void handle_inflight_too_high(struct sock *sk,
				     const struct bbr2_sample *sample)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	bbr->bw_probe_samples = 0;
	if (!sample->rs->is_app_limited)
		bbr->inflight_hi = max(sample->tx_in_flight,
				       scaled(target_inflight(sk), BETA));
	if (bbr->state == UP)
		start_down(sk);
}

/* 4.3.3.6: BBRAdaptUpperBounds */
static void adapt_upper_bounds(struct sock *sk, const struct bbr2_sample *sample)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (bbr->ack_phase == ACKS_PROBE_STARTING && bbr->round_start)
		bbr->ack_phase = ACKS_PROBE_FEEDBACK;
	if (bbr->ack_phase == ACKS_PROBE_STOPPING && bbr->round_start) {
		bbr->bw_probe_samples = 0;
		bbr->ack_phase = ACKS_INIT;
		if (in_probe_bw(bbr) && !sample->rs->is_app_limited) {
			bbr->max_bw[0] = bbr->max_bw[1];
			bbr->max_bw[1] = 0;
		}
	}
	if (is_inflight_too_high(sample)) {
		if (bbr->bw_probe_samples)
			handle_inflight_too_high(sk, sample);
		return;
	}
	if (bbr->inflight_hi == UNLIMITED)
		return;
	bbr->inflight_hi = max(bbr->inflight_hi, sample->tx_in_flight);
	if (bbr->state == UP)
		probe_inflight_hi_upward(sk, sample->rs);
}

/* 4.3.3.5.1: as often as a Reno flow with this window would have a loss */
static bool is_reno_coexistence_probe_time(struct sock *sk)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	return bbr->rounds_since_probe >=
	       min(target_inflight(sk), (u32)RENO_ROUNDS_MAX);
}

static bool check_time_to_probe(struct sock *sk)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	if (!has_elapsed_in_phase(sk, bbr->probe_wait_us) &&
	    !is_reno_coexistence_probe_time(sk))
		return false;
	start_refill(sk);
	return true;
}

static bool is_time_to_cruise(struct sock *sk, u32 in_flight)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);

	return in_flight <= inflight_with_headroom(bbr) &&
	       in_flight <= inflight_at(sk, max_bw(bbr), GAIN(100));
}

/* 4.3.3.6: BBRUpdateProbeBWCyclePhase */
static void update_cycle_phase(struct sock *sk, const struct bbr2_sample *sample)
{
	struct bbr2 *bbr = inet_csk_ca(sk);
	u32 in_flight = tcp_packets_in_flight(tcp_sk(sk));

	if (!bbr->filled_pipe)
		return;
	adapt_upper_bounds(sk, sample);
	switch (bbr->state) {
	case DOWN:
		if (!check_time_to_probe(sk) && is_time_to_cruise(sk, in_flight))
			bbr->state = CRUISE;
		break;
	case CRUISE:
		check_time_to_probe(sk);
		break;
	case REFILL:
		if (bbr->round_start) {
			bbr->bw_probe_samples = 1;
			start_up(sk);
		}
		break;
	case UP:
		if (has_elapsed_in_phase(sk, bbr->min_rtt_us) &&
		    in_flight > inflight_at(sk, max_bw(bbr), UP_PACING_GAIN))
			start_down(sk);
		break;
	}
}

/* 4.3.2 */
static void check_drain(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (bbr->state == DRAIN && tcp_packets_in_flight(tcp_sk(sk)) <=
	    inflight_at(sk, max_bw(bbr), GAIN(100)))
		start_down(sk);
}

/* ---- 4.3.4: ProbeRTT ---- */

static void exit_probe_rtt(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	reset_lower_bounds(bbr);
	if (bbr->filled_pipe) {
		start_down(sk);
		bbr->state = CRUISE;
	} else {
		bbr->state = STARTUP;
	}
}

static void check_probe_rtt_done(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (!bbr->probe_rtt_done_stamp ||
	    !after(tcp_jiffies32, bbr->probe_rtt_done_stamp))
		return;
	bbr->probe_rtt_min_stamp = tcp_jiffies32;
	restore_cwnd(sk);
	exit_probe_rtt(sk);
}

static void handle_probe_rtt(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr2 *bbr = inet_csk_ca(sk);
	u32 in_flight = tcp_packets_in_flight(tp);

	tp->app_limited = max(tp->delivered + in_flight, 1U);
	if (!bbr->probe_rtt_done_stamp && in_flight <= probe_rtt_cwnd(sk)) {
		bbr->probe_rtt_done_stamp = max(tcp_jiffies32 +
			(u32)msecs_to_jiffies(PROBE_RTT_DURATION_MS), 1U);
		bbr->probe_rtt_round_done = 0;
		start_round(sk);
	} else if (bbr->probe_rtt_done_stamp) {
		if (bbr->round_start)
			bbr->probe_rtt_round_done = 1;
		if (bbr->probe_rtt_round_done)
			check_probe_rtt_done(sk);
	}
}

/* 4.3.4.4 and 4.5.3: BBRUpdateMinRTT, BBRCheckProbeRTT */
static void update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr2 *bbr = inet_csk_ca(sk);
	bool probe_rtt_expired = after(tcp_jiffies32, bbr->probe_rtt_min_stamp +
						      PROBE_RTT_INTERVAL);
	bool min_rtt_expired = after(tcp_jiffies32, bbr->min_rtt_stamp +
						    MIN_RTT_FILTER_LEN);

	if (rs->rtt_us >= 0 &&
	    (rs->rtt_us < bbr->probe_rtt_min_us ||
	     (probe_rtt_expired && !rs->is_ack_delayed))) {
		bbr->probe_rtt_min_us = rs->rtt_us;
		bbr->probe_rtt_min_stamp = tcp_jiffies32;
	}
	if (bbr->probe_rtt_min_us <= bbr->min_rtt_us || min_rtt_expired) {
		bbr->min_rtt_us = bbr->probe_rtt_min_us;
		bbr->min_rtt_stamp = bbr->probe_rtt_min_stamp;
	}
	if (probe_rtt_expired && !bbr->idle_restart && bbr->state != PROBE_RTT) {
		save_cwnd(sk);
		bbr->state = PROBE_RTT;
		bbr->probe_rtt_done_stamp = 0;
		bbr->ack_phase = ACKS_PROBE_STOPPING;
		start_round(sk);
	}
	if (bbr->state == PROBE_RTT)
		handle_probe_rtt(sk);
	if (rs->delivered > 0)
		bbr->idle_restart = 0;
}

/* ---- 4.2.3: on every ACK ---- */

static void update_model(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr2 *bbr = inet_csk_ca(sk);
	struct bbr2_sample sample;

	note_loss(sk, rs);
	bbr2_sample(sk, rs, &sample);
	update_latest_delivery(sk, &sample);
	update_congestion_signals(sk, &sample);
	update_ack_aggregation(sk, rs);
	check_startup_done(sk, &sample);
	check_drain(sk);
	update_cycle_phase(sk, &sample);
	update_min_rtt(sk, rs);
	advance_latest_delivery(bbr, &sample);
	if (bbr->loss_round_start) {
		bbr->loss_in_round = 0;
		bbr->loss_events = 0;
	}
}

#ifdef TCP_CONG_CONTROL_HAS_SAMPLE_ALONE
static void bbr2_main(struct sock *sk, const struct rate_sample *rs)
#else
static void bbr2_main(struct sock *sk, u32 ack, int flag,
		      const struct rate_sample *rs)
#endif
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	bbr->round_start = 0;
	bbr->loss_round_start = 0;
	if (rs->delivered > 0 && rs->interval_us > 0)
		update_model(sk, rs);
	if (!bbr->has_seen_rtt && tcp_sk(sk)->srtt_us)
		init_pacing_rate(sk);
	set_pacing_rate(sk, bound_bw(bbr), pacing_gain(bbr));
	set_cwnd(sk, rs);
}

/* 4.2.2 */
static void bbr2_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr2 *bbr = inet_csk_ca(sk);

	memset(bbr, 0, sizeof(*bbr));
	bbr->min_rtt_us = tcp_min_rtt(tp);
	bbr->probe_rtt_min_us = bbr->min_rtt_us;
	bbr->min_rtt_stamp = tcp_jiffies32;
	bbr->probe_rtt_min_stamp = tcp_jiffies32;
	bbr->inflight_hi = UNLIMITED;
	reset_lower_bounds(bbr);
	bbr->next_round_delivered = tp->delivered;
	bbr->loss_round_delivered = tp->delivered;
	bbr->last_round_delivered = tp->delivered;
	bbr->loss_round_lost = tp->lost;
	bbr->last_round_lost = tp->lost;
	bbr->probe_up_cnt = UNLIMITED;
	bbr->prior_ca_state = TCP_CA_Open;
	bbr->extra_acked_stamp_us = tp->tcp_mstamp;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	init_pacing_rate(sk);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* 4.4.3: BBRHandleRestartFromIdle */
static void bbr2_tx_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (!tp->app_limited)
		return;
	bbr->idle_restart = 1;
	bbr->extra_acked_stamp_us = tp->tcp_mstamp;
	bbr->extra_acked_delivered = 0;
	if (in_probe_bw(bbr))
		set_pacing_rate(sk, bound_bw(bbr), GAIN(100));
	else if (bbr->state == PROBE_RTT)
		check_probe_rtt_done(sk);
}

#ifndef TCP_CONG_HAS_TX_START
static void bbr2_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		bbr2_tx_start(sk);
}
#endif

/* Entering recovery; BBR has no use for the slow start threshold */
static u32 bbr2_ssthresh(struct sock *sk)
{
	save_cwnd(sk);
	return tcp_sk(sk)->snd_ssthresh;
}

/* The losses were none: forget what they have taught, and probe anew */
static u32 bbr2_undo_cwnd(struct sock *sk)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	bbr->full_bw = 0;
	bbr->full_bw_count = 0;
	bbr->loss_in_round = 0;
	reset_lower_bounds(bbr);
	return max(tcp_snd_cwnd(tcp_sk(sk)), bbr->prior_cwnd);
}

/* 4.6.4.4: BBROnEnterRTO; the kernel itself sets the window to one packet */
static void bbr2_set_state(struct sock *sk, u8 new_state)
{
	struct bbr2 *bbr = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	bbr->prior_ca_state = TCP_CA_Loss;
	bbr->full_bw = 0;
}

static u32 bbr2_sndbuf_expand(struct sock *sk)
{
	return 3; /* a window in flight may be doubled in Startup */
}

/* `ss -ti` shows it as bbr:(...) */
static size_t bbr2_get_info(struct sock *sk, u32 ext, int *attr,
			    union tcp_cc_info *info)
{
	const struct bbr2 *bbr = inet_csk_ca(sk);
	u64 bw = bound_bw(bbr);

	if (!(ext & (1 << (INET_DIAG_BBRINFO - 1))) &&
	    !(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	bw = (bw * tcp_sk(sk)->mss_cache * USEC_PER_SEC) >> BW_SCALE;
	memset(&info->bbr, 0, sizeof(info->bbr));
	info->bbr.bbr_bw_lo = (u32)bw;
	info->bbr.bbr_bw_hi = (u32)(bw >> 32);
	info->bbr.bbr_min_rtt = bbr->min_rtt_us;
	info->bbr.bbr_pacing_gain = pacing_gain(bbr);
	info->bbr.bbr_cwnd_gain = cwnd_gain(bbr);
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

static struct tcp_congestion_ops bbr2 __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= "bbr2",
	.owner		= THIS_MODULE,
	.init		= bbr2_init,
	.cong_control	= bbr2_main,
#ifdef TCP_CONG_HAS_TX_START
	.cwnd_event_tx_start = bbr2_tx_start,
#else
	.cwnd_event	= bbr2_cwnd_event,
#endif
	.min_tso_segs	= bbr2_min_tso_segs,
	.sndbuf_expand	= bbr2_sndbuf_expand,
	.ssthresh	= bbr2_ssthresh,
	.undo_cwnd	= bbr2_undo_cwnd,
	.set_state	= bbr2_set_state,
	.get_info	= bbr2_get_info,
};

static int __init bbr2_register(void)
{
	BUILD_BUG_ON(sizeof(struct bbr2) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&bbr2);
}

static void __exit bbr2_unregister(void)
{
	tcp_unregister_congestion_control(&bbr2);
}

module_init(bbr2_register);
module_exit(bbr2_unregister);

MODULE_AUTHOR("the openbach-run developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP BBR version 2 (draft-cardwell-iccrg-bbr-congestion-control-02)");
