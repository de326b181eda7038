/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SATPEP_PRIVILEGES_H
#define SATPEP_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Becomes `user` ("" stays who it is) and keeps two capabilities: CAP_NET_ADMIN to use addresses of others, restricted
 * congestion controls and large buffers, CAP_NET_BIND_SERVICE to use clients' low ports. false with a message on stderr.
 */
bool privileges_drop(const char *user);

/* false: there is no such user. */
bool privileges_find(const char *user, uid_t *uid, gid_t *gid);

#endif
