/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A forward link in frames (DVB-S2): a queue for each terminal and class, packets in GSE, frames
 * (BBFRAMEs) one after another at a symbol rate, each in one MODCOD, and terminals that cannot
 * receive some of them. docs/method/forward-link.md says what the model is.
 *
 * The same source is part of the module and of a program that tests run in user space. It knows
 * no clock: each call says what time it is. All numbers are integers, so that the same packets at
 * the same times leave at the same times on every machine. There is no chance in it.
 */
#ifndef DVBS2_CORE_H
#define DVBS2_CORE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#endif

#define DVBS2_CLASSES 5		/* NM, EF, SIG, AF, BE: the first goes first */
#define DVBS2_TERMINALS 1024
#define DVBS2_MODCODS 28
#define DVBS2_SILENT DVBS2_MODCODS	/* in place of a MODCOD: nothing is sent to the terminal */
#define DVBS2_CHANGES 1000000
#define DVBS2_BINS 1024		/* of delays: 32 for each power of two microseconds */

struct dvbs2_values {
	u64 symbol_rate;		/* symbols/s */
	u64 label_bytes;		/* GSE: in the header of a packet, or of its first fragment */
	u64 fair_by_time;		/* 0: terminals of a class get the same bytes; 1: the same air time */
	u64 queue_bytes;		/* of each class of a terminal */
	u64 queue_packets;
	u64 terminals;
	u64 changes;
};

struct dvbs2_modcod {
	u32 bytes;			/* of a frame's data field; 0: there is no such MODCOD */
	u32 symbols;			/* of a frame, with its header */
	u64 frames;
	u64 lost_frames;		/* that a terminal with a part in it could not receive */
	u64 used_bytes;			/* of packets */
	u64 header_bytes;
	u64 padded_bytes;
};

enum dvbs2_kind {
	DVBS2_RECEIVES,			/* MODCODs that the terminal can receive of what is sent from then on: bits */
	DVBS2_SENDS,			/* the MODCOD in which the gateway sends to it, or DVBS2_SILENT */
	DVBS2_KINDS
};

struct dvbs2_change {
	u64 time_us;			/* since the start */
	u32 terminal;
	u32 kind;
	u32 value;
};

struct dvbs2_packet {
	struct dvbs2_packet *next;
	void *cookie;			/* the caller's */
	u64 arrived_ns;
	u64 leaves_ns;
	u64 frame;			/* the last one with a part of it */
	u32 bytes;
	u32 left;			/* bytes that are in no frame yet */
	u16 terminal;
	u8 class;
	bool lost;
};

struct dvbs2_list {
	struct dvbs2_packet *first;
	struct dvbs2_packet *last;
};

struct dvbs2_count {
	u64 packets;
	u64 bytes;
};

struct dvbs2_class {
	struct dvbs2_list waiting;
	struct dvbs2_count in;		/* = out + dropped + lost + queued */
	struct dvbs2_count out;
	struct dvbs2_count dropped;
	struct dvbs2_count lost;
	struct dvbs2_count queued;	/* with those in a frame that is being sent */
	u64 served;			/* what it has got, in bytes or air time */
	u32 *bins;			/* how many packets have waited how long */
};

struct dvbs2_terminal {
	struct dvbs2_class classes[DVBS2_CLASSES];
	u32 modcod;			/* of what is sent to it */
	u32 receives;			/* bits of MODCODs */
	u64 frame;			/* the last one with a part for it */
	bool hears;			/* that one, until now */
	u64 frames;
	u64 lost_frames;
	u64 used_bytes;
	u64 header_bytes;
};

struct dvbs2 {
	struct dvbs2_values values;
	struct dvbs2_modcod modcods[DVBS2_MODCODS];
	u64 origin_ns;
	u64 clock_ns;			/* all before it has happened */
	u64 busy_from_ns;		/* frames follow each other from then on, */
	u64 busy_symbols;		/* so many symbols until the end of the last one */
	u64 ends_ns;			/* of the frame that is being sent */
	u32 sends;			/* its MODCOD, or DVBS2_SILENT */
	u64 frame;			/* its number, from 1 on */
	u32 next_change;
	u64 waiting[DVBS2_CLASSES];	/* packets in queues, without those that are in a frame as a whole */
	u64 served[DVBS2_CLASSES];	/* of the terminal that was served last */
	struct dvbs2_list sending;	/* packets that the end of this frame completes */
	struct dvbs2_list leaving;	/* and those of frames that have ended */
	struct dvbs2_terminal *terminals;
	struct dvbs2_change *changes;	/* in the order of their times */
};

/* The value of that name, or NULL. */
u64 *dvbs2_value(struct dvbs2_values *values, const char *name);

/* What is wrong with the values, or NULL. */
const char *dvbs2_check_values(const struct dvbs2_values *values);

/* What is wrong with a link whose values, MODCODs and changes have been set, or NULL. */
const char *dvbs2_check(const struct dvbs2 *link);

/* All but values, MODCODs, changes and terminals is zero; `bins` are DVBS2_CLASSES * DVBS2_BINS for each terminal. */
void dvbs2_start(struct dvbs2 *link, u32 *bins, u64 now_ns);

/* All that happens before then; with `now`, a frame that begins then, too. */
void dvbs2_advance(struct dvbs2 *link, u64 now_ns, bool now);

/* The packet has `bytes`, `terminal` and `class`. False: its queue is full. After dvbs2_advance. */
bool dvbs2_arrive(struct dvbs2 *link, struct dvbs2_packet *packet, u64 now_ns);

/* A packet of a frame that has ended, or NULL; it may be lost. After dvbs2_advance. */
struct dvbs2_packet *dvbs2_leave(struct dvbs2 *link);

/* When to ask again; ~0: not before a packet arrives. */
u64 dvbs2_next_ns(const struct dvbs2 *link);

/* Any packet that is still here, or NULL. */
struct dvbs2_packet *dvbs2_take(struct dvbs2 *link);

/* Delay that this share of a class's packets has not exceeded, within 2 %. */
u64 dvbs2_delay_us(const struct dvbs2_class *class, u32 percent);

u64 dvbs2_queued_bytes(const struct dvbs2_terminal *terminal);

#endif
