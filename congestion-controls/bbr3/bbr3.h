/* SPDX-License-Identifier: GPL-2.0 */
/*
 * BBR version 3: what draft-ietf-ccwg-bbr has of its own; its section numbers
 * stand here.
 */
#include "bbr.h"

#define DRAIN_ROUNDS_MAX	3

/* 5.3.1.2: in Startup and in each probe, by the samples themselves */
static void check_full_bw_reached(struct sock *sk,
				  const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->full_bw_now || !bbr->round_start || sample->rs->is_app_limited)
		return;
	count_full_bw_round(bbr, sample->bw);
}

/* 5.3.2 */
static bool is_drain_over(const struct bbr *bbr)
{
	return bbr->rounds_since_probe > DRAIN_ROUNDS_MAX;
}

/* 5.3.3.9: IsTimeToGoDown */
static bool is_bw_saturated(struct sock *sk, const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (is_longterm_limited(sk)) {
		reset_full_bw(bbr, sample->bw);
		return false;
	}
	return bbr->full_bw_now;
}

/* 5.6.4.4: the short-term model is the only response */
static u32 cwnd_after_losses(const struct rate_sample *rs, u32 cwnd)
{
	return cwnd;
}
