// SPDX-License-Identifier: GPL-3.0-or-later
#include "events.h"

enum { ALWAYS = EPOLLIN | EPOLLPRI | EPOLLRDHUP };

bool events_watch(int epoll, int fd, uint32_t events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};
	return !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void events_pause(int epoll, int fd, void *what, bool paused)
{
	struct epoll_event event = {.events = paused ? 0 : EPOLLIN, .data.ptr = what};
	epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
}

static uint32_t wanted(const struct leg *leg)
{
	return ALWAYS | EPOLLET | (leg->watches_write ? EPOLLOUT : 0);
}

bool events_watch_leg(int epoll, struct leg *leg)
{
	leg->watches_write = leg->side == SERVER; /* its handshake */
	return events_watch(epoll, leg->fd, wanted(leg), leg);
}

void events_watch_write(int epoll, struct leg *leg, bool watched)
{
	if (leg->watches_write == watched)
		return;
	leg->watches_write = watched;
	struct epoll_event event = {.events = wanted(leg), .data.ptr = leg};
	epoll_ctl(epoll, EPOLL_CTL_MOD, leg->fd, &event);
}

void events_take(struct leg *leg, uint32_t events)
{
	leg->readable |= !!(events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR));
	leg->writable |= !!(events & (EPOLLOUT | EPOLLHUP | EPOLLERR));
	leg->failed |= !!(events & EPOLLERR);
	leg->urgent |= !!(events & EPOLLPRI);
}
