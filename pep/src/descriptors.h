/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How the descriptors that this process may have are shared between connections and pipes. */
#ifndef SATPEP_DESCRIPTORS_H
#define SATPEP_DESCRIPTORS_H

struct descriptors {
	int connections; /* from so many on new ones pass by; */
	int room;	 /* those that were on their way by then are taken as well, up to so many in all */
	int pipes;
};

/* Raises the limit as far as so many connections need it and this process may. */
void descriptors_raise_limit(int connections);

/* What the limit has room for; for fewer connections than these it says so on stderr. */
struct descriptors descriptors_share(int connections);

#endif
