/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SATPEP_INITIAL_WINDOW_H
#define SATPEP_INITIAL_WINDOW_H

#include "options.h"

/*
 * Gives the sockets that this process makes from now on their initial congestion window, by leg. Linux has no socket option for
 * it: a program of type sockops does it, attached to a cgroup of this process's own (its name is that of the network namespace
 * and the port; an empty cgroup remains when the process is gone). false with a message on stderr.
 */
bool initial_window_set(const struct options *options);

#endif
