// SPDX-License-Identifier: GPL-3.0-or-later
/* satpep: a transparent proxy that splits TCP connections. Data flows connection.c -> relay.c -> the kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "initial_window.h"
#include "leg.h"
#include "options.h"
#include "privileges.h"
#include "proxy.h"

enum { EXIT_FAILED = 1, EXIT_WRONG_USE = 2 };

static bool open_log(const char *name, FILE **out)
{
	if (!name)
		return true;
	umask(077);
	*out = strcmp(name, "-") ? fopen(name, "ae") : stdout;
	if (!*out) {
		fprintf(stderr, "satpep: -l %s: %s\n", name, strerror(errno));
		return false;
	}
	setvbuf(*out, NULL, _IOLBF, 0);
	return true;
}

/* A server's leg is set anew for each connection: what the kernel does not take should be known before the first one. */
static bool server_leg_works(const struct options *options)
{
	int fd = leg_listen(AF_INET, 0, &options->legs[SERVER]);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* As far as this process may: the proxy makes do with what there is. */
static void raise_descriptor_limit(rlim_t wanted)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= wanted)
		return;
	rlim_t most = limit.rlim_max < wanted ? wanted : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, most}))
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit.rlim_max < wanted ? limit.rlim_max : wanted, limit.rlim_max});
}

static bool has_ipv6(void)
{
	return access("/proc/net/if_inet6", F_OK) == 0;
}

int main(int argc, char **argv)
{
	struct options options;
	struct listeners listeners = {-1, -1};
	FILE *out = NULL;
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
	if (!open_log(options.log_file, &out) || !initial_window_set(&options) || !server_leg_works(&options))
		return EXIT_FAILED;
	listeners.v4 = leg_listen(AF_INET, options.port, &options.legs[CLIENT]);
	if (listeners.v4 < 0)
		return EXIT_FAILED;
	if (has_ipv6() && (listeners.v6 = leg_listen(AF_INET6, options.port, &options.legs[CLIENT])) < 0)
		return EXIT_FAILED;
	if (options.daemon && daemon(0, 0)) {
		fprintf(stderr, "satpep: going to the background: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	raise_descriptor_limit((rlim_t)proxy_descriptors(&options));
	if (!privileges_drop(options.user))
		return EXIT_FAILED;
	return proxy_run(&options, &listeners, out);
}
