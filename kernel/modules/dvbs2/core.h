/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A forward link in frames (DVB-S2): a queue for each terminal and class, packets in GSE, frames
 * (BBFRAMEs) one after another at a symbol rate, each in one MODCOD, and terminals that cannot
 * receive some of them. docs/method/forward-link.md says what the model is.
 * There is no chance in it.
 */
#ifndef DVBS2_CORE_H
#define DVBS2_CORE_H

#include "link.h"

#define DVBS2_MODCODS 28
#define DVBS2_SILENT DVBS2_MODCODS	/* in place of a MODCOD: nothing is sent to the terminal */
#define DVBS2_CHANGES 1000000

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

struct dvbs2_terminal {
	struct link_class classes[LINK_CLASSES];
	u32 modcod;			/* of what is sent to it */
	u32 receives;			/* bits of MODCODs */
	u64 frame;			/* the last one with a part for it */
	bool hears;			/* that one, until now */
	u64 frames;
	u64 lost_frames;
	u64 used_bytes;
	u64 header_bytes;
};

struct link {
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
	u64 waiting[LINK_CLASSES];	/* packets in queues, without those that are in a frame as a whole */
	u64 served[LINK_CLASSES];	/* of the terminal that was served last */
	struct link_list sending;	/* packets that the end of this frame completes */
	struct link_list leaving;	/* and those of frames that have ended */
	struct dvbs2_terminal *terminals;
	struct dvbs2_change *changes;	/* in the order of their times */
	u32 *bins;			/* LINK_CLASSES * LINK_BINS of each terminal */
	/* The caller's: */
	u64 *addresses;			/* of terminals */
	u32 known;			/* how many of them */
	u64 strangers;			/* packets for no terminal */
	u64 told_changes;
};

extern const struct link_name dvbs2_value_names[];

/* What is wrong with the values, or NULL. */
const char *dvbs2_check_values(const struct dvbs2_values *values);

/* What is wrong with a link whose values, MODCODs and changes have been set, or NULL. */
const char *dvbs2_check(const struct link *link);

#endif
