// SPDX-License-Identifier: GPL-3.0-or-later
#include "descriptors.h"

#include <stdio.h>
#include <sys/resource.h>

enum { OWN = 32 }; /* listeners, epoll, signals, log, the standard ones */

/* A connection has two sockets, a pipe two ends. For seven connections there is a pair more, for pipes and for those that come late. */
static int pairs_for(int connections)
{
	return connections * 8 / 7 + 2;
}

void descriptors_raise_limit(int connections)
{
	rlim_t wanted = (rlim_t)(OWN + 2 * pairs_for(connections));
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= wanted)
		return;
	rlim_t most = limit.rlim_max < wanted ? wanted : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, most}))
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit.rlim_max < wanted ? limit.rlim_max : wanted, limit.rlim_max});
}

struct descriptors descriptors_share(int connections)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	int pairs = pairs_for(connections);
	if (limit.rlim_cur < (rlim_t)(OWN + 2 * pairs))
		pairs = limit.rlim_cur < OWN + 2 ? 1 : ((int)limit.rlim_cur - OWN) / 2;
	int most = pairs * 7 / 8 < 1 ? 1 : pairs * 7 / 8;
	if (most < connections)
		fprintf(stderr, "satpep: %d connections at a time instead of %d: this process may have %d descriptors only\n", most,
			connections, (int)limit.rlim_cur);
	else
		most = connections;
	int pipes = (pairs - most + 1) / 2;
	return (struct descriptors){.connections = most, .room = pairs - pipes, .pipes = pipes};
}
