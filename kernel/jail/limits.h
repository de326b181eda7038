/* SPDX-License-Identifier: GPL-2.0 */
#ifndef LIMITS_H
#define LIMITS_H

#include <sys/types.h>

#define MIB		(1L << 20)
#define GUEST_MIB	512L	/* of a guest that does not say how much memory it has */
#define MORE_MIB	64L	/* what a guest may have beside its memory: of memory, and of files without a name */
#define OPEN_FILES	65536L	/* of all a guest's processes; the guest's kernel has one for each file of the guest */

/* The limits of a guest with so much memory, for this process and all that come of it; 0: of its files' number only. */
void set_limits(long guest_mib);

/*
 * What a guest has that has passed a limit, in words; NULL if nothing has. `proc` is the host's /proc, and `first` the
 * process that all of the guest's have come of. One look takes some 1 ms: at everything but files and mappings, and at
 * these of one process, in turn.
 */
const char *passed_limit(int proc, pid_t first, long guest_mib);

#endif
