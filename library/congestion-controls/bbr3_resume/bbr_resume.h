/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Careful Resume in BBR: RFC 9959, Appendix C ("Implementation Notes for using
 * BBR"). Its flag "carefully-resuming" is set in the Unvalidated and Validating
 * Phases here, a round each, and in the Retreat, which is Drain.
 *
 * The document takes any lost packet for congestion. BBR does not, and would be
 * left with the bandwidth of half a jump by the first random loss. In
 * the Reconnaissance any loss ends Careful Resume, as required; after the jump
 * congestion is what BBR's own rules call so: CE marks, and losses above 2 % of
 * what was in flight (5.5.10.2 of draft-ietf-ccwg-bbr).
 */
#include "resume.h"

static bool is_resuming(const struct bbr *bbr)
{
	return bbr->resume == RESUME_UNVALIDATED ||
	       bbr->resume == RESUME_VALIDATING;
}

/* The probing rate: half the saved window in an RTT; 0 if there is none */
static u32 resumed_bw(const struct bbr *bbr)
{
	return is_resuming(bbr) && bbr->state == STARTUP ? bbr->resume_bw : 0;
}

/* "Any delivery rates measured in the Drain state MUST be discarded" */
static bool is_bw_tainted(const struct bbr *bbr)
{
	return bbr->resume == RESUME_RETREAT;
}

static void resume_init(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);

	bbr->resume = RESUME_RECONNAISSANCE;
	bbr->resume_delivered = tp->delivered + tcp_snd_cwnd(tp);
}

/* "Starts the Unvalidated Phase at the beginning of a BBR round" */
static void reconnoitre(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = inet_csk_ca(sk);
	u32 jump, unused;

	if (resume_is_congested(tp)) {
		bbr->resume = RESUME_NORMAL;
		return;
	}
	if (before(tp->delivered, bbr->resume_delivered) ||
	    !tp->is_cwnd_limited)
		return;
	jump = resume_take(sk, &unused);
	bbr->resume = jump ? RESUME_UNVALIDATED : RESUME_NORMAL;
	if (!jump)
		return;
	bbr->resume_bw = min_t(u64, div_u64((u64)jump << BW_SCALE,
					    tcp_min_rtt(tp)), ANY_BW - 1);
	start_round(sk);
}

/* After the model knows of this ACK, before the state follows from the model */
static void resume_update(struct sock *sk, const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->resume == RESUME_RECONNAISSANCE) {
		reconnoitre(sk);
		return;
	}
	if (!is_resuming(bbr))
		return;
	if (is_inflight_too_high(sk, sample) || sample->rs->delivered_ce > 0) {
		end_startup_early(sk);
	} else if (bbr->round_start && bbr->resume == RESUME_UNVALIDATED) {
		bbr->resume = RESUME_VALIDATING;
	} else if (bbr->round_start) {
		resume_give_back(sk, COUNT_VALIDATED);
		bbr->resume = RESUME_NORMAL;
	}
}

/* Startup has ended before the jump was validated: Safe Retreat */
static void resume_drain(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (!is_resuming(bbr)) {
		bbr->resume = RESUME_NORMAL;
		return;
	}
	resume_give_back(sk, COUNT_RETREATED);
	bbr->resume = RESUME_RETREAT;
}

/* Startup is left otherwise, or Drain */
static void resume_end(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (is_resuming(bbr))
		resume_give_back(sk, RESUME_COUNTS);
	bbr->resume = RESUME_NORMAL;
}

/* Observing */
static void bbr_release(struct sock *sk)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (is_resuming(bbr))
		resume_give_back(sk, RESUME_COUNTS);
	else if (bbr->resume == RESUME_NORMAL)
		resume_save(sk, bdp(sk, max_bw(bbr), GAIN(100)),
			    bbr->min_rtt_us);
	bbr->resume = RESUME_NONE;
}
