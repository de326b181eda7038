// SPDX-License-Identifier: GPL-2.0
/*
 * TCP BBR version 2: what draft-cardwell-iccrg-bbr-congestion-control-02 has
 * of its own; its section numbers stand here. The draft's bw_hi is left out,
 * as in version 3: it never falls below max_bw. From version 3 it has what the
 * BBRv2 of Linux has too, and the draft has not: precautionary probing and the
 * undoing of what spurious losses have taught.
 */
#define BBR_NAME	"bbr2"
#define BBR_DESCRIPTION	\
	"TCP BBR version 2 (draft-cardwell-iccrg-bbr-congestion-control-02)"

#include "bbr.h"

/* 4.3.1.2: only until the pipe was full once, and by the filtered bandwidth */
static void check_full_bw_reached(struct sock *sk,
				  const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->full_bw_reached || !bbr->round_start ||
	    sample->rs->is_app_limited)
		return;
	count_full_bw_round(bbr, max_bw(bbr));
}

/* 4.3.2: only when the queue is empty */
static bool is_drain_over(const struct bbr *bbr)
{
	return false;
}

/* 4.3.3.6: a quarter more than the BDP has been in flight, for an RTT */
static bool is_bw_saturated(struct sock *sk, const struct bbr_sample *sample)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return has_elapsed_in_phase(sk, bbr->min_rtt_us) &&
	       sample->rs->prior_in_flight >
	       inflight_at(sk, max_bw(bbr), UP_PACING_GAIN);
}

/*
 * 4.6.4.4: BBRModulateCwndForRecovery. Without the draft's packet
 * conservation, which the BBRv2 of Linux has not either: a loss soon after
 * ProbeRTT finds half a window in flight, and the window that is conserved then
 * becomes inflight_shortterm until the next Refill.
 */
static u32 cwnd_after_losses(const struct rate_sample *rs, u32 cwnd)
{
	return rs->losses > 0 ? max_t(s32, cwnd - rs->losses, 1) : cwnd;
}
