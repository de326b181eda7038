/* SPDX-License-Identifier: GPL-2.0 */
/* BBR version 3: what the authors' branch v3 has of its own */
#define BBR_VERSION		3

#define STARTUP_PACING_GAIN	710	/* 4 * ln(2), rounded up */
#define STARTUP_CWND_GAIN	GAIN(200)
#define DOWN_PACING_GAIN	GAIN(91)
#define UP_CWND_GAIN		GAIN(225)
#define STARTUP_FULL_LOSS_COUNT	6

#include "bbr.h"

/* In Startup and in each probe, by the samples themselves */
static void check_full_bw_reached(struct sock *sk,
				  const struct bbr_sample *sample)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (!bbr->full_bw_now && !sample->rs->is_app_limited)
		count_full_bw_round(bbr, sample->bw);
}

/* 5.3.3.9: IsTimeToGoDown */
static bool is_bw_saturated(struct sock *sk, const struct bbr_sample *sample,
			    u32 in_flight)
{
	struct bbr *bbr = inet_csk_ca(sk);

	if (is_longterm_limited(sk)) {
		reset_full_bw(bbr, sample->bw);
		return false;
	}
	return bbr->full_bw_now;
}
