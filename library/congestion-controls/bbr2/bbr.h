/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What BBR version 2 and version 3 have in common
 *
 * They do what the code of BBR's authors does: branches v2alpha and v3 of
 * github.com/google/bbr. This is written anew, with the names of
 * draft-ietf-ccwg-bbr (August 2026), whose section numbers the comments give.
 * Where the code and the draft differ, this follows the code.
 *
 * Two inputs of the authors' code are not to be had from Linux: how many packets
 * were lost (RS.lost) and in flight (RS.tx_in_flight) with regard to the moment
 * that the packet just acknowledged was sent. See bbr_sample().
 *
 * A version includes this file and defines what it has of its own: BBR_NAME,
 * BBR_DESCRIPTION, BBR_VERSION, the parameters below that are not here, and the
 * two functions declared first.
 */
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/random.h>
#include <net/tcp.h>

#define BW_SCALE	24	/* bandwidth is in packets per usec << 24 */
#define GAIN_SCALE	8	/* gains and fractions are << 8 */
#define GAIN(percent)	((percent) * (1 << GAIN_SCALE) / 100)
#define ANY_BW		(~0U)
#define ANY_INFLIGHT	0xffffffU	/* more than a window of TCP holds */

/* 2.5 to 2.16: parameters */
#define DRAIN_PACING_GAIN	88		/* ln(2) / 2 */
#define UP_PACING_GAIN		GAIN(125)
#define PROBE_RTT_CWND_GAIN	GAIN(50)
#define DEFAULT_CWND_GAIN	GAIN(200)
#define LOSS_THRESH		GAIN(2)		/* 5 / 256: 1.95 % */
#define BETA			(GAIN(100) - GAIN(30))
#define HEADROOM		GAIN(15)
#define ECN_MAX_RTT_US		5000
#define ECN_ALPHA_GAIN		(GAIN(100) / 16)
#define ECN_FACTOR		(GAIN(100) / 3)
#define ECN_THRESH		GAIN(50)
#define PACING_MARGIN_PERCENT	1
#define MIN_PIPE_CWND		4U
#define FULL_BW_ROUNDS		3
#define FULL_BW_GROWTH		GAIN(125)
#define MIN_RTT_FILTER_LEN	(10 * HZ)
#define PROBE_RTT_INTERVAL	(5 * HZ)
#define PROBE_RTT_DURATION_MS	200
#define PROBE_WAIT_BASE_MS	2000
#define PROBE_WAIT_RAND_MS	1000
#define RENO_ROUNDS_MAX		63
#define EXTRA_ACKED_ROUNDS	5	/* per half of the window */
#define EXTRA_ACKED_MAX		0xffff
#define EXTRA_ACKED_MAX_US	100000
#define ACK_EPOCH_MAX		0xfffff
#define PROBE_UP_ACKS_MAX	0xfffff
#define LOSS_EVENTS_MAX		15
#define ROUND_LOST_MAX		0xffff
#define MIN_TSO_RATE_BPS	1200000	/* bbr2: below it bursts are one packet */
#define TSO_RTT_SHIFT		9	/* a burst halves with each 512 us of RTT */

static bool ecn_enable;
module_param(ecn_enable, bool, 0644);
MODULE_PARM_DESC(ecn_enable, "take CE marks, if the minimum RTT is at most 5 ms, for those of a shallow queue (DCTCP, L4S)");

/* 5.1.1: the states; those of ProbeBW are the last four */
enum bbr_state {
	STARTUP,
	DRAIN,
	PROBE_RTT,
	DOWN,
	CRUISE,
	REFILL,
	UP,
};

/* 2.14: which round of probing the ACKs that arrive now belong to */
enum bbr_ack_phase {
	ACKS_INIT,
	ACKS_REFILLING,
	ACKS_PROBE_STARTING,
	ACKS_PROBE_FEEDBACK,
	ACKS_PROBE_STOPPING,
};

/* Rates are << BW_SCALE, volumes in packets */
struct bbr {
	u32	max_bw[2];		/* of the last cycle and this one */
	u32	bw_shortterm;
	u32	bw_latest;
	u32	full_bw;
	u32	undo_bw_shortterm;
	u32	inflight_shortterm:24,
		state:3,
		ack_phase:3,
		is_ecn_eligible:1,
		is_ecn_in_cycle:1;
	u32	inflight_longterm:24,
		prior_ca_state:3,
		probe_up_rounds:5;
	u32	inflight_latest:24,
		rounds_since_probe:6,
		full_bw_count:2;
	u32	undo_inflight_shortterm:24,
		loss_events:4,
		extra_acked_rounds:3,
		extra_acked_half:1;
	u32	undo_inflight_longterm:24,
		full_bw_reached:1,
		full_bw_now:1,
		round_start:1,
		loss_round_start:1,
		is_loss_in_round:1,
		is_bw_probe_sample:1,
		probe_rtt_round_done:1,
		has_seen_rtt:1;
	u32	prior_cwnd:24,
		prev_probe_too_high:1,
		prev_probe_precautionary:1,
		resume:3,	/* phase of Careful Resume */
		idle_restart:1,
		is_loss_in_cycle:1,
		is_startup_marked:1;	/* by CE, in the last round */
	u32	min_rtt_us;
	u32	min_rtt_stamp;		/* jiffies, as the other stamps */
	u32	probe_rtt_min_us;
	u32	probe_rtt_min_stamp;
	union {
		u32	cycle_stamp_us;		/* in ProbeBW */
		u32	probe_rtt_done_stamp;	/* in ProbeRTT; 0: not known */
		u32	resume_delivered;	/* in Startup: the initial data's */
		u32	resume_bw;		/* in Startup: the probing rate */
	};
	u32	next_round_delivered;
	u32	loss_round_delivered;	/* delivered and lost when this round */
	u32	loss_round_lost;	/* of losses began, */
	u32	last_round_delivered;	/* and when the last one did */
	u16	last_round_losses;	/* from that one to this one */
	u16	ecn_alpha;		/* average share of CE marks */
	u32	extra_acked_stamp_us;
	u32	extra_acked_delivered:20,
		lost_seen:12;		/* low bits of what was lost */
	u32	probe_up_acks:20,
		probe_wait_ms:12;
	u16	extra_acked[2];		/* maxima of both halves of the window */
};

/* What one ACK tells (2.3) */
struct bbr_sample {
	const struct rate_sample *rs;
	u32	bw;		/* RS.delivery_rate */
	u32	lost;		/* RS.lost */
	u32	tx_in_flight;	/* RS.tx_in_flight */
};

/* 5.3.1.2: CheckFullBWReached */
static void check_full_bw_reached(struct sock *sk,
				  const struct bbr_sample *sample);

/* 5.3.3.7: whether a probe has shown that there is no more bandwidth */
static bool is_bw_saturated(struct sock *sk, const struct bbr_sample *sample,
			    u32 in_flight);

/* Careful Resume, of a version that defines BBR_RESUMES: bbr_resume.h */
#ifdef BBR_RESUMES
static u32 resumed_bw(const struct bbr *bbr);
static bool is_bw_tainted(const struct bbr *bbr);
static void resume_init(struct sock *sk);
static void resume_update(struct sock *sk, const struct bbr_sample *sample);
static void resume_drain(struct sock *sk);
static void resume_end(struct sock *sk);
static void bbr_release(struct sock *sk);
static int resume_open(void);
static void resume_close(void);
#else
static u32 resumed_bw(const struct bbr *bbr)
{
	return 0;
}

static bool is_bw_tainted(const struct bbr *bbr)
{
	return false;
}

static void resume_init(struct sock *sk) {}
static void resume_update(struct sock *sk, const struct bbr_sample *sample) {}
static void resume_drain(struct sock *sk) {}
static void resume_end(struct sock *sk) {}

static int resume_open(void)
{
	return 0;
}

static void resume_close(void) {}
#endif

static u32 scaled(u64 value, u32 gain)
{
	return (value * gain) >> GAIN_SCALE;
}

static u32 inflight(u64 packets)
{
	return min_t(u64, packets, ANY_INFLIGHT);
}

static bool in_probe_bw(const struct bbr *bbr)
{
	return bbr->state >= DOWN;
}

/* 5.3.3.9: raising the bandwidth on purpose, so that losses are no news */
static bool is_probing_bw(const struct bbr *bbr)
{
	return bbr->state == STARTUP || bbr->state == REFILL ||
	       bbr->state == UP;
}

static u32 max_bw(const struct bbr *bbr)
{
	return max(bbr->max_bw[0], bbr->max_bw[1]);
}

/* 5.5.10.3: BoundBWForModel */
static u32 bound_bw(const struct bbr *bbr)
{
	return min(max_bw(bbr), bbr->bw_shortterm);
}

static u32 pacing_gain(const struct bbr *bbr)
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

static u32 cwnd_gain(const struct bbr *bbr)
{
	if (bbr->state == PROBE_RTT)
		return GAIN(100);
	if (bbr->state <= DRAIN)
		return STARTUP_CWND_GAIN;
	return bbr->state == UP ? UP_CWND_GAIN : DEFAULT_CWND_GAIN;
}

/* ---- 5.6: control parameters ---- */

/* Bytes per second. 2.2: SMSS is payload alone, which is all that TCP paces */
static u64 pacing_rate(struct sock *sk, u32 bw, u32 gain)
{
	u64 rate = (u64)bw * tcp_sk(sk)->mss_cache;

	rate = (rate * gain) >> GAIN_SCALE;
	rate *= USEC_PER_SEC / 100 * (100 - PACING_MARGIN_PERCENT);
	return min_t(u64, rate >> BW_SCALE, READ_ONCE(sk->sk_max_pacing_rate));
}

/* 5.6.2: until the pipe was full once, the rate only rises */
static void set_pacing_rate(struct sock *sk, u32 bw, u32 gain)
{
	const struct bbr *bbr = inet_csk_ca(sk);
	u64 rate = pacing_rate(sk, bw, gain);

	if (bbr->full_bw_reached || rate > READ_ONCE(sk->sk_pacing_rate))
		WRITE_ONCE(sk->sk_pacing_rate, rate);
}

/* 5.6.2: InitPacingRate: the initial window in an RTT, 1 ms if unknown */
static void init_pacing_rate(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);
	u32 rtt_us = USEC_PER_MSEC;
	u64 bw;

	if (tp->srtt_us) {
		rtt_us = max(tp->srtt_us >> 3, 1U);
		bbr->has_seen_rtt = 1;
	}
	bw = div_u64((u64)tcp_snd_cwnd(tp) << BW_SCALE, rtt_us);
	WRITE_ONCE(sk->sk_pacing_rate,
		   pacing_rate(sk, min_t(u64, bw, ANY_BW), STARTUP_PACING_GAIN));
}

static u32 bbr_min_tso_segs(struct sock *sk)
{
	return BBR_VERSION == 2 &&
	       READ_ONCE(sk->sk_pacing_rate) < MIN_TSO_RATE_BPS / 8 ? 1 : 2;
}

/* 5.6.3: the largest burst that goes out at once */
static u32 send_quantum(struct sock *sk)
{
	const struct bbr *bbr = inet_csk_ca(sk);
	u64 bytes = READ_ONCE(sk->sk_pacing_rate) >>
		    READ_ONCE(sk->sk_pacing_shift);
	u32 halvings = bbr->min_rtt_us >> TSO_RTT_SHIFT;

	if (halvings < BITS_PER_TYPE(u32))
		bytes += GSO_LEGACY_MAX_SIZE >> halvings;
	bytes = min_t(u64, bytes, GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER);
	return max((u32)bytes / max(tcp_sk(sk)->mss_cache, 1U),
		   bbr_min_tso_segs(sk));
}

/* 5.6.4.2: BDPMultiple: gain * bw * min_rtt, rounded up */
static u32 bdp(const struct sock *sk, u32 bw, u32 gain)
{
	const struct bbr *bbr = inet_csk_ca(sk);
	u64 product = ((u64)bw * bbr->min_rtt_us) >> GAIN_SCALE;

	if (bbr->min_rtt_us == ~0U)
		return TCP_INIT_CWND;
	return inflight((product * gain + (1 << BW_SCALE) - 1) >> BW_SCALE);
}

/* 5.6.4.2: room for bursts at both ends, and for probing on short paths */
static u32 quantization_budget(struct sock *sk, u32 volume)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	volume = max3(volume, 3 * send_quantum(sk), MIN_PIPE_CWND);
	return bbr->state == UP ? volume + 2 : volume;
}

static u32 inflight_at(struct sock *sk, u32 bw, u32 gain)
{
	return quantization_budget(sk, bdp(sk, bw, gain));
}

/* 5.3.3.9: what is left to others while this flow does not probe */
static u32 inflight_with_headroom(const struct bbr *bbr)
{
	u32 longterm = bbr->inflight_longterm;

	if (longterm == ANY_INFLIGHT)
		return ANY_INFLIGHT;
	longterm -= min(max(scaled(longterm, HEADROOM), 1U), longterm);
	return max(longterm, MIN_PIPE_CWND);
}

static u32 target_inflight(struct sock *sk)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return min(inflight_at(sk, bound_bw(bbr), GAIN(100)),
		   tcp_snd_cwnd(tcp_sk(sk)));
}

/*
 * What of `in_flight` will be in the network when pacing lets the next burst go,
 * with that burst if it is to grow.
 */
static u32 packets_in_network(struct sock *sk, u32 in_flight)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr *bbr = inet_csk_ca(sk);
	u64 wait_ns = max(tp->tcp_wstamp_ns, tp->tcp_clock_cache) -
		      tp->tcp_clock_cache;
	u64 delivered = (bound_bw(bbr) * div_u64(wait_ns, NSEC_PER_USEC)) >>
			BW_SCALE;

	if (pacing_gain(bbr) > GAIN(100))
		in_flight += send_quantum(sk);
	return in_flight - min_t(u64, delivered, in_flight);
}

static u32 probe_rtt_cwnd(const struct sock *sk)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return max(bdp(sk, bound_bw(bbr), PROBE_RTT_CWND_GAIN), MIN_PIPE_CWND);
}

/* 5.6.4.4 */
static void save_cwnd(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);
	u32 cwnd = inflight(tcp_snd_cwnd(tcp_sk(sk)));

	if (bbr->prior_ca_state < TCP_CA_Recovery && bbr->state != PROBE_RTT)
		bbr->prior_cwnd = cwnd;
	else
		bbr->prior_cwnd = max_t(u32, bbr->prior_cwnd, cwnd);
}

static u32 restored_cwnd(struct sock *sk)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return max_t(u32, tcp_snd_cwnd(tcp_sk(sk)), bbr->prior_cwnd);
}

/* 5.6.4.7: BoundCwndForModel */
static u32 bound_cwnd_for_model(const struct bbr *bbr, u32 cwnd)
{
	u32 cap = ANY_INFLIGHT;

	if (in_probe_bw(bbr) && bbr->state != CRUISE)
		cap = bbr->inflight_longterm;
	else if (bbr->state == PROBE_RTT || bbr->state == CRUISE)
		cap = inflight_with_headroom(bbr);
	cap = max(min_t(u32, cap, bbr->inflight_shortterm), MIN_PIPE_CWND);
	return min(cwnd, cap);
}

/* 5.5.9: not more than comes in 100 ms */
static u32 extra_acked(const struct bbr *bbr)
{
	u64 most = ((u64)bound_bw(bbr) * EXTRA_ACKED_MAX_US) >> BW_SCALE;

	return min_t(u64, max(bbr->extra_acked[0], bbr->extra_acked[1]), most);
}

/* 5.6.4.6 */
static void set_cwnd(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);
	u32 acked = rs->acked_sacked, max_inflight, cwnd = tcp_snd_cwnd(tp);

	if (acked) {
		max_inflight = bdp(sk, max(bound_bw(bbr), resumed_bw(bbr)),
				   cwnd_gain(bbr));
		max_inflight = quantization_budget(sk, max_inflight +
						       extra_acked(bbr));
		if (bbr->full_bw_reached)
			cwnd = min(cwnd + acked, max_inflight);
		else if (cwnd < max(max_inflight, 2U * TCP_INIT_CWND))
			cwnd += acked;
		if (resumed_bw(bbr))
			cwnd = max(cwnd, max_inflight);
		cwnd = max(cwnd, MIN_PIPE_CWND);
	}
	if (bbr->state == PROBE_RTT)
		cwnd = min(cwnd, probe_rtt_cwnd(sk));
	cwnd = bound_cwnd_for_model(bbr, cwnd);
	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
}

/* ---- 5.5: the model ---- */

/* 5.5.1: packet-timed rounds */
static void start_round(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->next_round_delivered = tcp_sk(sk)->delivered;
}

static void update_round(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->round_start = !before(rs->prior_delivered,
				   bbr->next_round_delivered);
	if (!bbr->round_start)
		return;
	start_round(sk);
	if (bbr->rounds_since_probe < RENO_ROUNDS_MAX)
		bbr->rounds_since_probe++;
}

/*
 * The authors' kernel takes P.lost and P.tx_in_flight along with every packet
 * (4.1.2.1.2); Linux has no room for them. Both follow from what it has:
 *
 * Packets lost when the acknowledged one was sent: known at the beginning of
 * the last two rounds, between which it was sent, and taken as proportional to
 * what was delivered in between.
 *
 * Packets in flight when it was sent: each of them has been delivered or lost
 * by now (but for reordering), and rs->delivered counts the former.
 *
 * All is 0 if the kernel has no sample for this ACK.
 */
static struct bbr_sample bbr_sample(struct sock *sk,
				    const struct rate_sample *rs)
{
	const struct bbr *bbr = inet_csk_ca(sk);
	u32 span = bbr->loss_round_delivered - bbr->last_round_delivered;
	u32 part = rs->prior_delivered - bbr->last_round_delivered;
	u32 lost = bbr->loss_round_lost;
	u64 bw;

	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return (struct bbr_sample) { .rs = rs };
	bw = DIV_ROUND_UP_ULL((u64)rs->delivered << BW_SCALE, rs->interval_us);
	if (before(rs->prior_delivered, bbr->loss_round_delivered)) {
		lost -= bbr->last_round_losses;
		if (after(rs->prior_delivered, bbr->last_round_delivered))
			lost += div_u64((u64)part * bbr->last_round_losses,
					span);
	}
	lost = tcp_sk(sk)->lost - lost;
	return (struct bbr_sample) {
		.rs = rs,
		.bw = min_t(u64, bw, ANY_BW),
		.lost = lost,
		.tx_in_flight = inflight((u64)rs->delivered + lost),
	};
}

static void set_loss_round(struct bbr *bbr, const struct tcp_sock *tp)
{
	bbr->last_round_losses = min(bbr->last_round_losses + tp->lost -
				     bbr->loss_round_lost, (u32)ROUND_LOST_MAX);
	bbr->loss_round_delivered = tp->delivered;
	bbr->loss_round_lost = tp->lost;
}

/*
 * 5.5.10.2: NoteLoss: the first loss begins the round whose end adapts to it,
 * so that a whole round shows what is delivered nevertheless.
 */
static void note_loss(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (!bbr->is_loss_in_round)
		set_loss_round(bbr, tcp_sk(sk));
	bbr->is_loss_in_round = 1;
	bbr->is_loss_in_cycle = 1;
}

/* Also those that RACK's timer or a retransmission timeout has marked */
static void note_losses(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);
	u32 seen = bbr->lost_seen;

	bbr->lost_seen = tcp_sk(sk)->lost;
	if (bbr->lost_seen != seen)
		note_loss(sk);
}

/* 5.5.10.3: UpdateLatestDeliverySignals */
static void update_latest_delivery(struct sock *sk,
				   const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->bw_latest = max(bbr->bw_latest, sample->bw);
	bbr->inflight_latest = max_t(u32, bbr->inflight_latest,
				     inflight(sample->rs->delivered));
	bbr->loss_round_start = !before(sample->rs->prior_delivered,
					bbr->loss_round_delivered);
	if (!bbr->loss_round_start)
		return;
	bbr->last_round_delivered = bbr->loss_round_delivered;
	bbr->last_round_losses = 0;
	set_loss_round(bbr, tcp_sk(sk));
}

static void advance_latest_delivery(struct bbr *bbr,
				    const struct bbr_sample *sample)
{
	if (!bbr->loss_round_start)
		return;
	bbr->bw_latest = sample->bw;
	bbr->inflight_latest = inflight(sample->rs->delivered);
}

/* 5.5.10.3: ResetShortTermModel */
static void reset_shortterm_model(struct bbr *bbr)
{
	bbr->bw_shortterm = ANY_BW;
	bbr->inflight_shortterm = ANY_INFLIGHT;
}

static void reset_congestion_signals(struct bbr *bbr)
{
	bbr->is_loss_in_round = 0;
	bbr->is_loss_in_cycle = 0;
	bbr->is_ecn_in_cycle = 0;
	bbr->bw_latest = 0;
	bbr->inflight_latest = 0;
}

/*
 * 5.5.10.3: what a round with losses or CE marks says of the path as it is now.
 * It ends with this ACK, whose sample spans it.
 */
static void adapt_shortterm_model(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr *bbr = inet_csk_ca(sk);
	bool is_marked = bbr->is_ecn_eligible && rs->delivered_ce > 0;
	u32 marked_inflight = ANY_INFLIGHT;

	if (is_probing_bw(bbr) || !(bbr->is_loss_in_round || is_marked))
		return;
	if (bbr->inflight_shortterm == ANY_INFLIGHT)
		bbr->inflight_shortterm = inflight(tcp_snd_cwnd(tcp_sk(sk)));
	if (is_marked)
		marked_inflight = scaled(bbr->inflight_shortterm, GAIN(100) -
					 scaled(bbr->ecn_alpha, ECN_FACTOR));
	if (bbr->is_loss_in_round) {
		if (bbr->bw_shortterm == ANY_BW)
			bbr->bw_shortterm = max_bw(bbr);
		bbr->bw_shortterm = max(bbr->bw_latest,
					scaled(bbr->bw_shortterm, BETA));
		bbr->inflight_shortterm =
			max_t(u32, bbr->inflight_latest,
			      scaled(bbr->inflight_shortterm, BETA));
	}
	bbr->inflight_shortterm = min_t(u32, bbr->inflight_shortterm,
					marked_inflight);
}

static void end_startup_early(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->full_bw_reached = 1;
	bbr->inflight_longterm = inflight_at(sk, max_bw(bbr), GAIN(100));
	if (BBR_VERSION == 3)
		bbr->inflight_longterm = max_t(u32, bbr->inflight_longterm,
					       bbr->inflight_latest);
}

/* How much of a round is marked CE; half of two rounds ends Startup */
static void update_ecn_alpha(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr *bbr = inet_csk_ca(sk);
	u32 share = div_u64((u64)rs->delivered_ce << GAIN_SCALE, rs->delivered);
	bool was_marked = bbr->is_startup_marked;

	if (READ_ONCE(ecn_enable) && bbr->min_rtt_us <= ECN_MAX_RTT_US)
		bbr->is_ecn_eligible = 1;
	if (!bbr->is_ecn_eligible)
		return;
	bbr->ecn_alpha = min(scaled(bbr->ecn_alpha, GAIN(100) - ECN_ALPHA_GAIN) +
			     scaled(share, ECN_ALPHA_GAIN), (u32)GAIN(100));
	bbr->is_startup_marked = share >= ECN_THRESH;
	if (bbr->is_startup_marked && was_marked && !bbr->full_bw_reached)
		end_startup_early(sk);
}

/* 5.5.10.3 and 5.5.5: UpdateCongestionSignals, UpdateMaxBw */
static void update_congestion_signals(struct sock *sk,
				      const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (!is_bw_tainted(bbr) &&
	    (sample->bw >= max_bw(bbr) || !sample->rs->is_app_limited))
		bbr->max_bw[1] = max(bbr->max_bw[1], sample->bw);
	if (!bbr->loss_round_start)
		return;
	adapt_shortterm_model(sk, sample->rs);
	bbr->is_loss_in_round = 0;
}

/* 5.5.9: how much more than the bandwidth allows is acknowledged at a time */
static void update_ack_aggregation(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);
	u32 elapsed_us = (u32)tp->delivered_mstamp - bbr->extra_acked_stamp_us;
	u64 expected = ((u64)bound_bw(bbr) * elapsed_us) >> BW_SCALE;
	u32 delivered, extra;

	if (bbr->round_start) {
		bbr->extra_acked_rounds++;
		if (bbr->extra_acked_rounds >= EXTRA_ACKED_ROUNDS ||
		    !bbr->full_bw_reached) {
			bbr->extra_acked_rounds = 0;
			bbr->extra_acked_half = !bbr->extra_acked_half;
			bbr->extra_acked[bbr->extra_acked_half] = 0;
		}
	}
	if (bbr->extra_acked_delivered <= expected ||
	    bbr->extra_acked_delivered + rs->acked_sacked >= ACK_EPOCH_MAX) {
		bbr->extra_acked_delivered = 0;
		bbr->extra_acked_stamp_us = tp->delivered_mstamp;
		expected = 0;
	}
	delivered = min_t(u32, bbr->extra_acked_delivered + rs->acked_sacked,
			  ACK_EPOCH_MAX);
	bbr->extra_acked_delivered = delivered;
	extra = delivered - min_t(u64, expected, delivered);
	extra = min3(extra, tcp_snd_cwnd(tp), (u32)EXTRA_ACKED_MAX);
	if (extra > bbr->extra_acked[bbr->extra_acked_half])
		bbr->extra_acked[bbr->extra_acked_half] = extra;
}

/* ---- 5.3.1 and 5.3.2: Startup and Drain ---- */

/* 5.3.1.2: ResetFullBW, and the bandwidth that growth is measured against */
static void reset_full_bw(struct bbr *bbr, u32 bw)
{
	bbr->full_bw = bw;
	bbr->full_bw_count = 0;
	bbr->full_bw_now = 0;
}

/* 5.3.1.2: what both versions do with a bandwidth of their own choice */
static void count_full_bw_round(struct bbr *bbr, u32 bw)
{
	if (bw >= scaled(bbr->full_bw, FULL_BW_GROWTH)) {
		reset_full_bw(bbr, bw);
		return;
	}
	if (!bbr->round_start || ++bbr->full_bw_count < FULL_BW_ROUNDS)
		return;
	bbr->full_bw_now = 1;
	bbr->full_bw_reached = 1;
}

/* 5.5.10.2 */
static bool is_inflight_too_high(const struct sock *sk,
				 const struct bbr_sample *sample)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return sample->lost > scaled(sample->tx_in_flight, LOSS_THRESH) ||
	       (bbr->is_ecn_eligible && sample->rs->delivered_ce > 0 &&
		sample->rs->delivered_ce >= scaled(sample->rs->delivered,
						   ECN_THRESH));
}

/* 5.3.1.3: in recovery for a round, with losses too many and too scattered */
static void check_startup_high_loss(struct sock *sk,
				    const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->full_bw_reached)
		return;
	if (sample->rs->losses > 0 && bbr->loss_events < LOSS_EVENTS_MAX)
		bbr->loss_events++;
	if (!bbr->loss_round_start)
		return;
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery &&
	    bbr->loss_events >= STARTUP_FULL_LOSS_COUNT &&
	    is_inflight_too_high(sk, sample))
		end_startup_early(sk);
	bbr->loss_events = 0;
}

/* The losses of Startup say nothing of the round that Drain begins */
static void check_startup_done(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->state == STARTUP && bbr->full_bw_reached) {
		reset_congestion_signals(bbr);
		resume_drain(sk);
		bbr->state = DRAIN;
	}
}

/* ---- 5.3.3: ProbeBW ---- */

static bool has_elapsed_in_phase(struct sock *sk, u32 interval_us)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return (u32)tcp_sk(sk)->tcp_mstamp - bbr->cycle_stamp_us > interval_us;
}

/* 5.3.3.9 */
static void start_down(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	resume_end(sk);
	reset_congestion_signals(bbr);
	bbr->rounds_since_probe = get_random_u32_below(2);
	bbr->probe_wait_ms = PROBE_WAIT_BASE_MS +
			     get_random_u32_below(PROBE_WAIT_RAND_MS);
	bbr->cycle_stamp_us = tcp_sk(sk)->tcp_mstamp;
	bbr->ack_phase = ACKS_PROBE_STOPPING;
	start_round(sk);
	bbr->state = DOWN;
}

static void start_cruise(struct bbr *bbr)
{
	if (bbr->inflight_shortterm != ANY_INFLIGHT)
		bbr->inflight_shortterm = min_t(u32, bbr->inflight_shortterm,
						bbr->inflight_longterm);
	bbr->state = CRUISE;
}

static void start_refill(struct sock *sk, u32 probe_up_rounds)
{
	struct bbr *bbr = inet_csk_ca(sk);

	reset_shortterm_model(bbr);
	bbr->probe_up_rounds = probe_up_rounds;
	bbr->probe_up_acks = 0;
	bbr->prev_probe_precautionary = 0;
	bbr->ack_phase = ACKS_REFILLING;
	start_round(sk);
	bbr->state = REFILL;
}

/* The window grows by 1, 2, 4, ... packets a round */
static void raise_inflight_longterm_slope(struct bbr *bbr)
{
	if (bbr->probe_up_rounds < 30)
		bbr->probe_up_rounds++;
}

static void start_up(struct sock *sk, const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->ack_phase = ACKS_PROBE_STARTING;
	start_round(sk);
	reset_full_bw(bbr, sample->bw);
	bbr->cycle_stamp_us = tcp_sk(sk)->tcp_mstamp;
	bbr->state = UP;
	raise_inflight_longterm_slope(bbr);
}

/* Whether inflight_longterm is what limits the flow */
static bool is_longterm_limited(const struct sock *sk)
{
	const struct bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->is_cwnd_limited && tcp_snd_cwnd(tp) >= bbr->inflight_longterm;
}

/* 5.3.3.9: ProbeInflightLongtermUpward */
static void probe_inflight_longterm_upward(struct sock *sk,
					   const struct rate_sample *rs)
{
	struct bbr *bbr = inet_csk_ca(sk);
	u32 acks, acks_per_packet;

	if (!is_longterm_limited(sk)) {
		if (BBR_VERSION == 2)
			bbr->probe_up_acks = 0;
		return;
	}
	acks_per_packet = tcp_snd_cwnd(tcp_sk(sk)) >> (bbr->probe_up_rounds - 1);
	acks_per_packet = clamp(acks_per_packet, 1U, (u32)PROBE_UP_ACKS_MAX);
	acks = bbr->probe_up_acks + rs->acked_sacked;
	bbr->inflight_longterm = inflight((u64)bbr->inflight_longterm +
					  acks / acks_per_packet);
	bbr->probe_up_acks = acks % acks_per_packet;
	if (bbr->round_start)
		raise_inflight_longterm_slope(bbr);
}

/* 5.5.10.2: HandleInflightTooHigh */
static void handle_inflight_too_high(struct sock *sk,
				     const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->prev_probe_too_high = 1;
	bbr->is_bw_probe_sample = 0;
	if (!sample->rs->is_app_limited)
		bbr->inflight_longterm = max(sample->tx_in_flight,
					     scaled(target_inflight(sk), BETA));
	if (bbr->state == UP)
		start_down(sk);
}

/* 5.3.3.9: AdaptLongTermModel: true if it has decided on the next state */
static bool adapt_longterm_model(struct sock *sk,
				 const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->ack_phase == ACKS_PROBE_STARTING && bbr->round_start)
		bbr->ack_phase = ACKS_PROBE_FEEDBACK;
	if (bbr->ack_phase == ACKS_PROBE_STOPPING && bbr->round_start) {
		bbr->is_bw_probe_sample = 0;
		bbr->ack_phase = ACKS_INIT;
		if (in_probe_bw(bbr) && !sample->rs->is_app_limited &&
		    bbr->max_bw[1]) {
			bbr->max_bw[0] = bbr->max_bw[1];
			bbr->max_bw[1] = 0;
		}
		/* 5.3.3.6: the cautious probe has done no harm */
		if (in_probe_bw(bbr) && bbr->prev_probe_precautionary &&
		    !bbr->prev_probe_too_high) {
			start_refill(sk, 0);
			return true;
		}
	}
	if (is_inflight_too_high(sk, sample)) {
		if (bbr->is_bw_probe_sample)
			handle_inflight_too_high(sk, sample);
		return false;
	}
	if (bbr->inflight_longterm == ANY_INFLIGHT)
		return false;
	bbr->inflight_longterm = max_t(u32, bbr->inflight_longterm,
				       sample->tx_in_flight);
	if (bbr->state == UP)
		probe_inflight_longterm_upward(sk, sample->rs);
	return false;
}

/* 5.3.3.8.3: as often as a Reno flow with this window would have a loss */
static bool is_reno_coexistence_probe_time(struct sock *sk)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return bbr->rounds_since_probe >=
	       min(target_inflight(sk), (u32)RENO_ROUNDS_MAX);
}

static bool check_time_to_probe(struct sock *sk)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	/* CE marks, which have ceased, and no losses: others have left */
	if (BBR_VERSION == 3 && bbr->is_ecn_eligible && bbr->is_ecn_in_cycle &&
	    !bbr->is_loss_in_cycle &&
	    inet_csk(sk)->icsk_ca_state == TCP_CA_Open) {
		start_refill(sk, ilog2(bbr->inflight_longterm / 2));
		return true;
	}
	if (!has_elapsed_in_phase(sk, bbr->probe_wait_ms * USEC_PER_MSEC) &&
	    !is_reno_coexistence_probe_time(sk))
		return false;
	start_refill(sk, 0);
	return true;
}

static bool is_time_to_cruise(struct sock *sk, u32 in_flight)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return in_flight <= inflight_with_headroom(bbr) &&
	       in_flight <= inflight_at(sk, max_bw(bbr), GAIN(100));
}

/*
 * 5.3.3.6 and 5.3.3.9: after a probe that went too high the next one ends when
 * it gets there: holding that for a round would risk a round of losses.
 */
static bool is_time_to_go_down(struct sock *sk, const struct bbr_sample *sample,
			       u32 in_flight)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->prev_probe_too_high && in_flight >= bbr->inflight_longterm) {
		bbr->prev_probe_precautionary = 1;
		return true;
	}
	return is_bw_saturated(sk, sample, in_flight);
}

/* 5.3.3.9: UpdateProbeBWCyclePhase */
static void update_cycle_phase(struct sock *sk, const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);
	u32 in_flight;

	if (!bbr->full_bw_reached || adapt_longterm_model(sk, sample))
		return;
	in_flight = packets_in_network(sk, sample->rs->prior_in_flight);
	switch (bbr->state) {
	case DOWN:
		if (!check_time_to_probe(sk) &&
		    is_time_to_cruise(sk, in_flight))
			start_cruise(bbr);
		break;
	case CRUISE:
		check_time_to_probe(sk);
		break;
	case REFILL:
		if (bbr->round_start) {
			bbr->is_bw_probe_sample = 1;
			start_up(sk, sample);
		}
		break;
	case UP:
		if (is_time_to_go_down(sk, sample, in_flight)) {
			bbr->prev_probe_too_high = 0;
			start_down(sk);
		}
		break;
	}
}

/* 5.3.2 */
static void check_drain_done(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->state == DRAIN &&
	    packets_in_network(sk, tcp_packets_in_flight(tcp_sk(sk))) <=
	    inflight_at(sk, max_bw(bbr), GAIN(100)))
		start_down(sk);
}

/* ---- 5.3.4: ProbeRTT ---- */

static void exit_probe_rtt(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	reset_shortterm_model(bbr);
	if (bbr->full_bw_reached) {
		start_down(sk);
		start_cruise(bbr);
	} else {
		bbr->state = STARTUP;
	}
}

static void check_probe_rtt_done(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (!bbr->probe_rtt_done_stamp ||
	    !after(tcp_jiffies32, bbr->probe_rtt_done_stamp))
		return;
	bbr->probe_rtt_min_stamp = tcp_jiffies32;
	tcp_snd_cwnd_set(tcp_sk(sk), restored_cwnd(sk));
	exit_probe_rtt(sk);
}

static void handle_probe_rtt(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);
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

/* 5.3.4.3: UpdateMinRTT, CheckProbeRTT */
static void update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr *bbr = inet_csk_ca(sk);
	bool probe_rtt_expired = after(tcp_jiffies32, bbr->probe_rtt_min_stamp +
						      PROBE_RTT_INTERVAL);
	bool min_rtt_expired = after(tcp_jiffies32, bbr->min_rtt_stamp +
						    MIN_RTT_FILTER_LEN);

	if (rs->rtt_us >= 0 &&
	    (rs->rtt_us < bbr->probe_rtt_min_us ||
	     (BBR_VERSION == 2 && rs->rtt_us == bbr->probe_rtt_min_us) ||
	     (probe_rtt_expired && !rs->is_ack_delayed))) {
		bbr->probe_rtt_min_us = rs->rtt_us;
		bbr->probe_rtt_min_stamp = tcp_jiffies32;
	}
	if (bbr->probe_rtt_min_us <= bbr->min_rtt_us || min_rtt_expired) {
		bbr->min_rtt_us = bbr->probe_rtt_min_us;
		bbr->min_rtt_stamp = bbr->probe_rtt_min_stamp;
	}
	if (probe_rtt_expired && !bbr->idle_restart && bbr->state != PROBE_RTT) {
		resume_end(sk);
		bbr->state = PROBE_RTT;
		save_cwnd(sk);
		bbr->probe_rtt_done_stamp = 0;
		bbr->ack_phase = ACKS_PROBE_STOPPING;
		start_round(sk);
	}
	if (bbr->state == PROBE_RTT)
		handle_probe_rtt(sk);
	if (rs->delivered > 0)
		bbr->idle_restart = 0;
}

/* ---- 5.2.3: on every ACK ---- */

static void update_model(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr *bbr = inet_csk_ca(sk);
	struct bbr_sample sample;

	note_losses(sk);
	sample = bbr_sample(sk, rs);
	if (sample.bw) {
		update_round(sk, rs);
		if (bbr->round_start)
			update_ecn_alpha(sk, rs);
		update_latest_delivery(sk, &sample);
		update_congestion_signals(sk, &sample);
		update_ack_aggregation(sk, rs);
	}
	resume_update(sk, &sample);
	check_startup_high_loss(sk, &sample);
	check_full_bw_reached(sk, &sample);
	check_startup_done(sk);
	check_drain_done(sk);
	update_cycle_phase(sk, &sample);
	update_min_rtt(sk, rs);
	advance_latest_delivery(bbr, &sample);
	if (sample.lost)
		bbr->is_loss_in_cycle = 1;
	if (rs->delivered_ce > 0)
		bbr->is_ecn_in_cycle = 1;
}

#ifdef TCP_CONG_CONTROL_HAS_SAMPLE_ALONE
static void bbr_main(struct sock *sk, const struct rate_sample *rs)
#else
static void bbr_main(struct sock *sk, u32 ack, int flag,
		     const struct rate_sample *rs)
#endif
{
	struct bbr *bbr = inet_csk_ca(sk);

	/* the ACK of a SYN comes before the initialization */
	if (!inet_csk(sk)->icsk_ca_initialized)
		return;
	bbr->round_start = 0;
	bbr->loss_round_start = 0;
	update_model(sk, rs);
	if (!bbr->has_seen_rtt && tcp_sk(sk)->srtt_us)
		init_pacing_rate(sk);
	set_pacing_rate(sk, bound_bw(bbr), pacing_gain(bbr));
	if (resumed_bw(bbr))
		set_pacing_rate(sk, resumed_bw(bbr), GAIN(100));
	set_cwnd(sk, rs);
	bbr->prior_ca_state = inet_csk(sk)->icsk_ca_state;
}

/* 5.2.1 */
static void bbr_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);

	memset(bbr, 0, sizeof(*bbr));
	bbr->min_rtt_us = tcp_min_rtt(tp);
	bbr->probe_rtt_min_us = bbr->min_rtt_us;
	bbr->min_rtt_stamp = tcp_jiffies32;
	bbr->probe_rtt_min_stamp = tcp_jiffies32;
	bbr->inflight_longterm = ANY_INFLIGHT;
	reset_shortterm_model(bbr);
	bbr->next_round_delivered = tp->delivered;
	bbr->loss_round_delivered = tp->delivered;
	bbr->last_round_delivered = tp->delivered;
	bbr->loss_round_lost = tp->lost;
	bbr->lost_seen = tp->lost;
	bbr->ecn_alpha = GAIN(100);
	bbr->prior_ca_state = TCP_CA_Open;
	bbr->extra_acked_stamp_us = tp->tcp_mstamp;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	init_pacing_rate(sk);
	resume_init(sk);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* 5.4.1: HandleRestartFromIdle */
static void bbr_tx_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);

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
static void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		bbr_tx_start(sk);
}
#endif

/* 5.6.4.4: OnEnterFastRecovery; BBR has no use for the threshold itself */
static u32 bbr_ssthresh(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	save_cwnd(sk);
	bbr->undo_bw_shortterm = bbr->bw_shortterm;
	bbr->undo_inflight_shortterm = bbr->inflight_shortterm;
	bbr->undo_inflight_longterm = bbr->inflight_longterm;
	return tcp_sk(sk)->snd_ssthresh;
}

/* 5.5.11.2: spurious losses end neither Startup nor a probe in retrospect */
static u32 bbr_undo_cwnd(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->is_loss_in_round = 0;
	reset_full_bw(bbr, 0);
	bbr->bw_shortterm = max(bbr->bw_shortterm, bbr->undo_bw_shortterm);
	bbr->inflight_shortterm = max_t(u32, bbr->inflight_shortterm,
					bbr->undo_inflight_shortterm);
	bbr->inflight_longterm = max_t(u32, bbr->inflight_longterm,
				       bbr->undo_inflight_longterm);
	return bbr->prior_cwnd;
}

/* A tail loss probe has mended the loss of the last packet */
static void note_tail_loss(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);
	struct rate_sample rs = { .is_app_limited = !!tcp_sk(sk)->app_limited };
	struct bbr_sample sample = {
		.rs = &rs,
		.lost = 1,
		.tx_in_flight = bbr->inflight_latest + 1,
	};

	note_loss(sk);
	if (bbr->is_bw_probe_sample && is_inflight_too_high(sk, &sample))
		handle_inflight_too_high(sk, &sample);
}

/*
 * 5.6.4.4: OnEnterRTO. The kernel has already saved the window by
 * bbr_ssthresh(), marked what is lost, and set the window to one packet, which
 * is no measure of what the path holds (5.5.10.3: InitLowerBounds), and is not
 * saved either: with prior_ca_state set, save_cwnd() keeps the larger one.
 *
 * tcp_process_tlp_ack() enters CWR for a moment.
 */
static void bbr_set_state(struct sock *sk, u8 new_state)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss) {
		bbr->prior_ca_state = TCP_CA_Loss;
		note_losses(sk);
		reset_full_bw(bbr, 0);
		if (!is_probing_bw(bbr) &&
		    bbr->inflight_shortterm == ANY_INFLIGHT)
			bbr->inflight_shortterm =
				max_t(u32, bbr->prior_cwnd,
				      tcp_snd_cwnd(tcp_sk(sk)));
	} else if (bbr->prior_ca_state == TCP_CA_Loss) {
		tcp_snd_cwnd_set(tcp_sk(sk), restored_cwnd(sk));
	} else if (BBR_VERSION == 3 && new_state == TCP_CA_CWR &&
		   tcp_sk(sk)->tlp_retrans) {
		note_tail_loss(sk);
	}
}

static u32 bbr_sndbuf_expand(struct sock *sk)
{
	return 3; /* a window in flight may be doubled in Startup */
}

/* `ss -ti` shows it as bbr:(...) */
static size_t bbr_get_info(struct sock *sk, u32 ext, int *attr,
			   union tcp_cc_info *info)
{
	const struct bbr *bbr = inet_csk_ca(sk);
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

static struct tcp_congestion_ops bbr __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= BBR_NAME,
	.owner		= THIS_MODULE,
	.init		= bbr_init,
	.cong_control	= bbr_main,
#ifdef TCP_CONG_HAS_TX_START
	.cwnd_event_tx_start = bbr_tx_start,
#else
	.cwnd_event	= bbr_cwnd_event,
#endif
	.min_tso_segs	= bbr_min_tso_segs,
	.sndbuf_expand	= bbr_sndbuf_expand,
	.ssthresh	= bbr_ssthresh,
	.undo_cwnd	= bbr_undo_cwnd,
	.set_state	= bbr_set_state,
	.get_info	= bbr_get_info,
#ifdef BBR_RESUMES
	.release	= bbr_release,
#endif
};

static int __init bbr_register(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct bbr) > ICSK_CA_PRIV_SIZE);
	error = resume_open();
	if (error)
		return error;
	error = tcp_register_congestion_control(&bbr);
	if (error)
		resume_close();
	return error;
}

static void __exit bbr_unregister(void)
{
	tcp_unregister_congestion_control(&bbr);
	resume_close();
}

module_init(bbr_register);
module_exit(bbr_unregister);

MODULE_AUTHOR("the openbach-run developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION(BBR_DESCRIPTION);
