/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the models of a satellite's two links share: the return link (dama) and the forward link in
 * frames (dvbs2). Each has this file as a symbolic link beside its core.h, where its `struct link` is.
 *
 * The same source is part of the modules and of programs that tests run in user space. It knows no
 * clock: each call says what time it is. All numbers are integers, so that the same packets at the
 * same times leave at the same times on every machine.
 */
#ifndef LINK_H
#define LINK_H

#ifdef __KERNEL__
#include <linux/minmax.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif

#define LINK_CLASSES 5		/* NM, EF, SIG, AF, BE: the first goes first */
#define LINK_TERMINALS 1024
#define LINK_BINS 1024		/* of delays: 32 for each power of two microseconds */
#define NONE (~0ULL)

struct link;

/* Of a number in a struct of values. A list of them ends with one without a name. */
struct link_name {
	const char *name;
	size_t offset;
};

struct link_packet {
	struct link_packet *next;
	void *cookie;			/* the caller's */
	u64 arrived_ns;
	u64 leaves_ns;
	u64 frame;			/* the last one with a part of it */
	u32 bytes;
	u32 left;			/* bytes that are in no burst or frame yet */
	u16 terminal;
	u8 class;
	bool lost;			/* its terminal could not receive it */
};

struct link_list {
	struct link_packet *first;
	struct link_packet *last;
};

struct link_count {
	u64 packets;
	u64 bytes;
};

struct link_class {
	struct link_list waiting;
	struct link_count in;		/* = out + dropped + lost + queued */
	struct link_count out;
	struct link_count dropped;
	struct link_count lost;
	struct link_count queued;	/* with those in a frame that is being sent */
	u64 served;			/* what it has got, in bytes or air time */
	u32 *bins;			/* how many packets have waited how long */
};

/* All is zero but the values, and what has been set of the terminals and their changes. */
void link_start(struct link *link, u64 now_ns);

/* All that happens before then; with `now`, what begins as no more packets arrive then, too. */
void link_advance(struct link *link, u64 now_ns, bool now);

/* The packet has `bytes`, `terminal` and `class`. False: its queue is full. After link_advance. */
bool link_arrive(struct link *link, struct link_packet *packet, u64 now_ns);

/* When to ask again; NONE: not before a packet arrives. */
u64 link_next_ns(const struct link *link);

/* Any packet that is still here, or NULL. */
struct link_packet *link_take(struct link *link);

/* The number of that name in `values`, or NULL. */
static inline u64 *link_number(const struct link_name *known, void *values, const char *name)
{
	for (; known->name; known++)
		if (!strcmp(name, known->name))
			return (u64 *)((char *)values + known->offset);
	return NULL;
}

/* a * b / c, where c * b is below 2^64 */
static inline u64 scaled(u64 a, u64 b, u64 c)
{
	return a / c * b + a % c * b / c;
}

static inline void append(struct link_list *list, struct link_packet *packet)
{
	packet->next = NULL;
	if (list->last)
		list->last->next = packet;
	else
		list->first = packet;
	list->last = packet;
}

static inline struct link_packet *taken(struct link_list *list)
{
	struct link_packet *packet = list->first;

	if (!packet)
		return NULL;
	list->first = packet->next;
	if (!list->first)
		list->last = NULL;
	return packet;
}

/* A packet that has left by then, or NULL; it may be lost. */
static inline struct link_packet *left_by(struct link_list *leaving, u64 now_ns)
{
	return leaving->first && leaving->first->leaves_ns <= now_ns ? taken(leaving) : NULL;
}

static inline void add(struct link_count *count, const struct link_packet *packet)
{
	count->packets++;
	count->bytes += packet->bytes;
}

static inline void subtract(struct link_count *count, const struct link_packet *packet)
{
	count->packets--;
	count->bytes -= packet->bytes;
}

/* Counts a packet that arrives. False: so much waits that it is dropped. */
static inline bool takes(struct link_class *class, struct link_packet *packet, u64 most_bytes, u64 most_packets,
			 u64 now_ns)
{
	add(&class->in, packet);
	if (class->queued.packets >= most_packets || class->queued.bytes + packet->bytes > most_bytes) {
		add(&class->dropped, packet);
		return false;
	}
	add(&class->queued, packet);
	packet->arrived_ns = now_ns;
	packet->left = packet->bytes;
	return true;
}

static inline void drop(struct link_class *class, const struct link_packet *packet)
{
	subtract(&class->queued, packet);
	add(&class->dropped, packet);
}

/* Counts a packet that leaves. */
static inline void depart(struct link_class *class, struct link_packet *packet, u64 leaves_ns)
{
	u64 us = (leaves_ns - packet->arrived_ns) / 1000;
	u32 power = 0;

	packet->leaves_ns = leaves_ns;
	subtract(&class->queued, packet);
	add(packet->lost ? &class->lost : &class->out, packet);
	if (packet->lost)
		return;
	while (us >> power >= 64)
		power++;
	class->bins[min(32 * power + (u32)(us >> power), (u32)LINK_BINS - 1)]++;
}

/* Delay that this share of a class's packets has not exceeded, within 2 %. */
static inline u64 link_delay_us(const struct link_class *class, u32 percent)
{
	u64 wanted = (class->out.packets * percent + 99) / 100, seen = 0;
	u32 bin;

	for (bin = 0; bin < LINK_BINS; bin++) {
		u32 power = bin < 64 ? 0 : bin / 32 - 1;

		seen += class->bins[bin];
		if (seen && seen >= wanted)
			return ((2ULL * (bin - 32 * power) + 1) << power) / 2;
	}
	return 0;
}

static inline u64 link_queued_bytes(const struct link_class *classes)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < LINK_CLASSES; i++)
		bytes += classes[i].queued.bytes;
	return bytes;
}

#endif
