// SPDX-License-Identifier: GPL-2.0
/* TCP BBR version 2: what the authors' branch v2alpha has of its own */
#define BBR_NAME	"bbr2"
#define BBR_DESCRIPTION	"TCP BBR version 2 (as the authors' v2alpha)"
#define BBR_VERSION	2

#define STARTUP_PACING_GAIN	739	/* 2 / ln(2), rounded up */
#define STARTUP_CWND_GAIN	739
#define DOWN_PACING_GAIN	GAIN(75)
#define UP_CWND_GAIN		GAIN(200)
#define STARTUP_FULL_LOSS_COUNT	8

#include "bbr.h"

/* Only until the pipe was full once, and by the filtered bandwidth */
static void check_full_bw_reached(struct sock *sk,
				  const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (bbr->full_bw_reached || !bbr->round_start ||
	    sample->rs->is_app_limited)
		return;
	count_full_bw_round(bbr, max_bw(bbr));
}

/* A quarter more than the BDP has been in flight, for a round-trip time */
static bool is_bw_saturated(struct sock *sk, const struct bbr_sample *sample,
			    u32 in_flight)
{
	const struct bbr *bbr = inet_csk_ca(sk);

	return has_elapsed_in_phase(sk, bbr->min_rtt_us) &&
	       in_flight >= inflight_at(sk, max_bw(bbr), UP_PACING_GAIN);
}
