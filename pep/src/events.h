/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the kernel is asked to tell (epoll), and what it tells of a leg. Events come on edges. */
#ifndef SATPEP_EVENTS_H
#define SATPEP_EVENTS_H

#include <sys/epoll.h>

#include "leg.h"

/* An event of the descriptor names `what`. */
bool events_watch(int epoll, int fd, uint32_t events, void *what);

/* Whether the arrival of bytes or connections is no event for a while. */
void events_pause(int epoll, int fd, void *what, bool paused);

/* An event of the leg names the leg. */
bool events_watch_leg(int epoll, struct leg *leg);

/* Whether a leg's becoming writable is an event: one that has nothing to send would wake the proxy for nothing. */
void events_watch_write(int epoll, struct leg *leg, bool watched);

/* Takes an event over into the leg. */
void events_take(struct leg *leg, uint32_t events);

#endif
