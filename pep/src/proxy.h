/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The proxy: takes connections in and moves all of them on, as the events come. */
#ifndef SATPEP_PROXY_H
#define SATPEP_PROXY_H

#include <signal.h>

#include "admission.h"
#include "answer_tos.h"
#include "log.h"
#include "options.h"

/* The signals that the proxy takes, which wait for it from now on: one that comes before it works is not lost. */
sigset_t proxy_block_signals(void);

/* Works until SIGINT, or until SIGTERM and the end of all connections or of the time they have. Returns the program's exit code. */
int proxy_run(const struct options *options, struct admission *admission, struct answer_tos *answers, struct log *log,
	      const sigset_t *signals);

#endif
