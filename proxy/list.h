/* List: an intrusive doubly linked ring. A link outside any list points to itself, so leaving twice is
 * harmless. */
#ifndef WEIR_LIST_H
#define WEIR_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *next, *before;
};

static inline void list_init(struct link *link)
{
    link->next = link->before = link;
}

static inline bool list_is_empty(const struct link *list)
{
    return list->next == list;
}

static inline void list_leave(struct link *link)
{
    link->next->before = link->before;
    link->before->next = link->next;
    list_init(link);
}

static inline void list_append(struct link *list, struct link *link)
{
    link->next = list;
    link->before = list->before;
    list->before->next = link;
    list->before = link;
}

/* Moves all of `from` to the end of `to`. */
static inline void list_move_all(struct link *to, struct link *from)
{
    if (list_is_empty(from))
        return;
    from->next->before = to->before;
    to->before->next = from->next;
    from->before->next = to;
    to->before = from->before;
    list_init(from);
}

#define LIST_OWNER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

#endif
