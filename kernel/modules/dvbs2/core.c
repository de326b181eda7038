// SPDX-License-Identifier: GPL-2.0
/*
 * A forward link in frames: see core.h.
 *
 * Where something waits and no frame is being sent, a frame begins. Its MODCOD is that of the terminal which is next
 * (first by class, then by what it has got); it is filled at once with packets of all terminals of this MODCOD, in the
 * same order. They leave when the frame ends. A terminal that cannot receive the MODCOD at any time of the frame loses
 * what the frame had for it.
 */
#include "core.h"

#define NS_PER_S 1000000000ULL
/* GSE, ETSI TS 102 606: */
#define WHOLE_BYTES 4			/* length and flags 2, protocol 2 */
#define START_BYTES 7			/* and fragment 1, whole length 2 */
#define MORE_BYTES 3			/* length and flags 2, fragment 1 */
#define CHECK_BYTES 4			/* behind the last fragment */
#define MOST_GSE_BYTES 4097		/* its length has 12 bits, and does not count itself */
#define AIR_PARTS 1024			/* of a symbol */

#define VALUE(name) { #name, offsetof(struct dvbs2_values, name) }

const struct link_name dvbs2_value_names[] = {
	VALUE(symbol_rate), VALUE(label_bytes), VALUE(fair_by_time), VALUE(queue_bytes), VALUE(queue_packets),
	VALUE(terminals), VALUE(changes), { NULL, 0 },
};

const char *dvbs2_check_values(const struct dvbs2_values *v)
{
	if (v->symbol_rate < 1000 || v->symbol_rate > NS_PER_S)
		return "symbol_rate is from 1000 to 1000000000";
	if (v->label_bytes > 6 || v->label_bytes % 3)
		return "label_bytes is 0, 3 or 6";
	if (v->fair_by_time > 1)
		return "fair_by_time is 0 or 1";
	if (!v->queue_bytes || v->queue_bytes > 4 * NS_PER_S || !v->queue_packets || v->queue_packets > 1000000)
		return "queue_bytes is from 1 to 4000000000, queue_packets from 1 to 1000000";
	if (!v->terminals || v->terminals > LINK_TERMINALS)
		return "there are 1 to 1024 terminals";
	if (v->changes > DVBS2_CHANGES)
		return "there are at most 1000000 changes";
	return NULL;
}

const char *dvbs2_check(const struct link *link)
{
	const char *wrong = dvbs2_check_values(&link->values);
	u32 i;

	if (wrong)
		return wrong;
	for (i = 0; i < DVBS2_MODCODS; i++) {
		const struct dvbs2_modcod *one = &link->modcods[i];

		if (one->bytes && (one->bytes < 64 || one->bytes > 65535 || !one->symbols || one->symbols > 1000000))
			return "a frame has 64 to 65535 bytes and 1 to 1000000 symbols";
	}
	for (i = 0; i < link->values.changes; i++) {
		const struct dvbs2_change *one = &link->changes[i];

		if (one->time_us > 1000000 * NS_PER_S || (i && one->time_us < one[-1].time_us))
			return "changes are in the order of their times";
		if (one->terminal >= link->values.terminals || one->kind >= DVBS2_KINDS)
			return "a change is of a terminal and of a kind that there is";
		if (one->kind == DVBS2_RECEIVES ? one->value >> DVBS2_MODCODS : one->value > DVBS2_SILENT)
			return "a change names MODCODs 0 to 27";
		if (one->kind == DVBS2_SENDS && one->value < DVBS2_SILENT && !link->modcods[one->value].bytes)
			return "a change names a MODCOD that there is not";
	}
	return NULL;
}

static struct link_class *class_of(const struct link *link, const struct link_packet *packet)
{
	return &link->terminals[packet->terminal].classes[packet->class];
}

/* Frames */

static bool receives(const struct dvbs2_terminal *terminal, u32 modcod)
{
	return terminal->receives >> modcod & 1;
}

/*
 * The terminal and class that is next, among those of a MODCOD, or of any if it is DVBS2_SILENT. NULL: nothing waits
 * there.
 */
static struct link_class *next_class(const struct link *link, u32 modcod, struct dvbs2_terminal **whose)
{
	u32 c, i;

	for (c = 0; c < LINK_CLASSES; c++) {
		struct link_class *next = NULL;

		for (i = 0; i < link->values.terminals && link->waiting[c]; i++) {
			struct dvbs2_terminal *terminal = &link->terminals[i];
			struct link_class *class = &terminal->classes[c];

			if (!class->waiting.first || terminal->modcod == DVBS2_SILENT ||
			    (modcod != DVBS2_SILENT && terminal->modcod != modcod) ||
			    (next && next->served <= class->served))
				continue;
			next = class;
			*whose = terminal;
		}
		if (next)
			return next;
	}
	return NULL;
}

/* Puts the packet or a part of it into the frame. False: there is no space for any of it. */
static bool put(struct link *link, struct dvbs2_terminal *terminal, struct link_class *class, u32 *space)
{
	struct dvbs2_modcod *modcod = &link->modcods[link->sends];
	struct link_packet *packet = class->waiting.first;
	bool begins = packet->left == packet->bytes;
	u32 label = begins ? link->values.label_bytes : 0, room = min(*space, (u32)MOST_GSE_BYTES);
	u32 header = (begins ? WHOLE_BYTES : MORE_BYTES + CHECK_BYTES) + label, bytes = packet->left;

	if (header + bytes > room) {
		header = (begins ? START_BYTES : MORE_BYTES) + label;
		if (room <= header || packet->left == 1)
			return false;
		/* Something is left for the last fragment, which has the check. */
		bytes = min(room - header, packet->left - 1);
	}
	*space -= header + bytes;
	packet->left -= bytes;
	packet->frame = link->frame;
	if (terminal->frame != link->frame) {
		terminal->frame = link->frame;
		terminal->hears = receives(terminal, link->sends);
		terminal->frames++;
	}
	terminal->used_bytes += bytes;
	terminal->header_bytes += header;
	modcod->used_bytes += bytes;
	modcod->header_bytes += header;
	link->served[packet->class] = class->served;
	class->served += link->values.fair_by_time ?
		(u64)(header + bytes) * modcod->symbols * AIR_PARTS / modcod->bytes : bytes;
	if (!packet->left) {
		link->waiting[packet->class]--;
		append(&link->sending, taken(&class->waiting));
	}
	return true;
}

/* Begins a frame now, if something waits that can be sent. */
static bool begin(struct link *link)
{
	struct dvbs2_terminal *terminal;
	struct link_class *class = next_class(link, DVBS2_SILENT, &terminal);
	struct dvbs2_modcod *modcod;
	u32 space;

	if (!class)
		return false;
	link->sends = terminal->modcod;
	link->frame++;
	modcod = &link->modcods[link->sends];
	space = modcod->bytes;
	while (class && put(link, terminal, class, &space))
		class = next_class(link, link->sends, &terminal);
	modcod->frames++;
	modcod->padded_bytes += space;
	if (link->ends_ns != link->clock_ns) {
		link->busy_from_ns = link->clock_ns;
		link->busy_symbols = 0;
	}
	link->busy_symbols += modcod->symbols;
	link->ends_ns = link->busy_from_ns + scaled(link->busy_symbols, NS_PER_S, link->values.symbol_rate);
	return true;
}

/* What the frame had for a terminal that could not receive it. */
static bool lose_parts(struct link *link)
{
	bool any = false;
	u32 i, c;

	for (i = 0; i < link->values.terminals; i++) {
		struct dvbs2_terminal *terminal = &link->terminals[i];

		if (terminal->frame != link->frame || terminal->hears)
			continue;
		any = true;
		terminal->lost_frames++;
		for (c = 0; c < LINK_CLASSES; c++) {
			struct link_packet *packet = terminal->classes[c].waiting.first;

			if (packet && packet->frame == link->frame)
				packet->lost = true;
		}
	}
	return any;
}

static void end(struct link *link)
{
	struct link_packet *packet;

	if (lose_parts(link))
		link->modcods[link->sends].lost_frames++;
	while ((packet = taken(&link->sending))) {
		packet->lost |= !link->terminals[packet->terminal].hears;
		depart(class_of(link, packet), packet, link->ends_ns);
		append(&link->leaving, packet);
	}
	link->sends = DVBS2_SILENT;
}

static u64 change_ns(const struct link *link)
{
	if (link->next_change == link->values.changes)
		return NONE;
	return link->origin_ns + link->changes[link->next_change].time_us * 1000;
}

static void apply(struct link *link)
{
	const struct dvbs2_change *change = &link->changes[link->next_change++];
	struct dvbs2_terminal *terminal = &link->terminals[change->terminal];

	if (change->kind == DVBS2_SENDS) {
		terminal->modcod = change->value;
		return;
	}
	terminal->receives = change->value;
	if (link->sends != DVBS2_SILENT && terminal->frame == link->frame)
		terminal->hears &= receives(terminal, link->sends);
}

void link_start(struct link *link, u64 now_ns)
{
	u32 i, c;

	link->origin_ns = now_ns;
	link->clock_ns = now_ns;
	link->sends = DVBS2_SILENT;
	for (i = 0; i < link->values.terminals; i++) {
		link->terminals[i].modcod = DVBS2_SILENT;
		for (c = 0; c < LINK_CLASSES; c++)
			link->terminals[i].classes[c].bins = link->bins + ((size_t)i * LINK_CLASSES + c) * LINK_BINS;
	}
}

/* A frame that would begin at `now_ns` waits, unless `now`: more may arrive at this time. */
void link_advance(struct link *link, u64 now_ns, bool now)
{
	for (;;) {
		u64 next_ns = change_ns(link);
		bool is_sending = link->sends != DVBS2_SILENT;

		/* A frame that ends as something changes was sent before. */
		if (is_sending && link->ends_ns <= next_ns) {
			if (link->ends_ns > now_ns)
				break;
			link->clock_ns = link->ends_ns;
			end(link);
		} else if (next_ns <= now_ns && (is_sending || next_ns <= link->clock_ns)) {
			link->clock_ns = max(link->clock_ns, next_ns);
			apply(link);
		} else if (!is_sending && (link->clock_ns < now_ns || now) && begin(link)) {
			continue;
		} else if (next_ns <= now_ns) {
			link->clock_ns = next_ns;
			apply(link);
		} else {
			break;
		}
	}
	link->clock_ns = max(link->clock_ns, now_ns);
}

bool link_arrive(struct link *link, struct link_packet *packet, u64 now_ns)
{
	struct link_class *class = class_of(link, packet);

	if (!takes(class, packet, link->values.queue_bytes, link->values.queue_packets, now_ns))
		return false;
	/* One that was silent has no claim on what others got meanwhile. */
	if (!class->waiting.first)
		class->served = max(class->served, link->served[packet->class]);
	link->waiting[packet->class]++;
	append(&class->waiting, packet);
	return true;
}

u64 link_next_ns(const struct link *link)
{
	struct dvbs2_terminal *terminal;
	u32 c;

	if (link->leaving.first)
		return link->leaving.first->leaves_ns;
	if (link->sends != DVBS2_SILENT)
		return link->ends_ns;
	if (next_class(link, DVBS2_SILENT, &terminal))
		return link->clock_ns;
	for (c = 0; c < LINK_CLASSES; c++)
		if (link->waiting[c])
			return change_ns(link);
	return NONE;
}

struct link_packet *link_take(struct link *link)
{
	struct link_packet *packet = taken(&link->leaving);
	u32 i, c;

	if (packet)
		return packet;
	packet = taken(&link->sending);
	for (i = 0; i < link->values.terminals && !packet; i++) {
		for (c = 0; c < LINK_CLASSES && !packet; c++) {
			packet = taken(&link->terminals[i].classes[c].waiting);
			if (packet)
				link->waiting[c]--;
		}
	}
	if (packet)
		drop(class_of(link, packet), packet);
	return packet;
}
