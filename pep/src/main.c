// SPDX-License-Identifier: GPL-3.0-or-later
/* satpep: a transparent proxy that splits TCP connections. Data flows connection.c -> relay.c -> the kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admission.h"
#include "answer_tos.h"
#include "descriptors.h"
#include "initial_window.h"
#include "leg.h"
#include "log.h"
#include "options.h"
#include "privileges.h"
#include "proxy.h"

enum { EXIT_FAILED = 1, EXIT_WRONG_USE = 2 };

/* A server's leg is set anew for each connection: what the kernel does not take should be known before the first one. */
static bool server_leg_works(const struct options *options)
{
	int fd = leg_bind(AF_INET, 0, &options->legs[SERVER]);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int main(int argc, char **argv)
{
	static struct admission admission;
	static struct answer_tos answers;
	static struct log log;
	struct options options;
	char error[256];
	switch (options_parse(argc, argv, &options, error, sizeof(error))) {
	case PARSED_SHOWN:
		return 0;
	case PARSED_WRONG:
		fprintf(stderr, "satpep: %s\n", error);
		return EXIT_WRONG_USE;
	case PARSED_RUN:
		break;
	}
	if (!log_open(&log, options.log_file, options.user) || !initial_window_set(&options) || !server_leg_works(&options) ||
	    !admission_open(&admission, &options))
		return EXIT_FAILED;
	answer_tos_open(&answers);
	descriptors_raise_limit(options.max_connections);
	if (!privileges_drop(options.user))
		return EXIT_FAILED;
	sigset_t signals = proxy_block_signals();
	if (options.daemon && daemon(0, 0)) {
		fprintf(stderr, "satpep: going to the background: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	int exit_code = proxy_run(&options, &admission, &answers, &log, &signals);
	admission_close(&admission);
	answer_tos_close(&answers);
	log_close(&log);
	return exit_code;
}
