/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A ring of nodes inside other structures, as in the kernel: a node can leave from anywhere at no cost. */
#ifndef SATPEP_LIST_H
#define SATPEP_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define container_of(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

struct list {
	struct list *next, *previous;
};

static inline void list_init(struct list *list)
{
	list->next = list->previous = list;
}

static inline bool list_empty(const struct list *list)
{
	return list->next == list;
}

static inline void list_remove(struct list *node)
{
	node->next->previous = node->previous;
	node->previous->next = node->next;
	list_init(node);
}

/* Puts the node at the end of the list, wherever it has been before. */
static inline void list_move_last(struct list *list, struct list *node)
{
	list_remove(node);
	node->previous = list->previous;
	node->next = list;
	list->previous->next = node;
	list->previous = node;
}

#endif
