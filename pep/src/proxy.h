/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The proxy: takes connections in and moves all of them on, as the events come. */
#ifndef SATPEP_PROXY_H
#define SATPEP_PROXY_H

#include <stdio.h>

#include "options.h"

/* Descriptors of the listening sockets; -1 where the host has no such protocol. */
struct listeners {
	int v4, v6;
};

/* How many descriptors it takes to serve all the connections that the options allow. With fewer it serves fewer. */
int proxy_descriptors(const struct options *options);

/* Works until SIGTERM or SIGINT. Returns the program's exit code. `out` gets the statistics, NULL if nobody wants them. */
int proxy_run(const struct options *options, const struct listeners *listeners, FILE *out);

#endif
