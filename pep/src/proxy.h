/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The proxy: takes connections in and moves all of them on, as the events come. */
#ifndef SATPEP_PROXY_H
#define SATPEP_PROXY_H

#include "admission.h"
#include "log.h"
#include "options.h"

/* How many descriptors it takes to serve all the connections that the options allow. With fewer it serves fewer. */
int proxy_descriptors(const struct options *options);

/* Works until SIGINT, or until SIGTERM and the end of all connections or of the time they have. Returns the program's exit code. */
int proxy_run(const struct options *options, struct admission *admission, struct log *log);

#endif
