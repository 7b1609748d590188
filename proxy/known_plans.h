/* Known plans: which plan has each caller, as far as the store has told this process?
 *
 * A copy of what the store says, that nobody is known by alone: it counts while changes reach this process without being asked
 * for (`told`), until it was changed, and no longer than the store said it would last. What does not count any more is kept
 * as the last that was heard, for when the store is away. That a caller has no plan is an answer like any other.
 *
 * Shared by all threads: sets of a few places, a mutex for many sets, held for no call out. Bounded: 65,536 callers. A caller
 * that is new takes the place of one of its set: one whose plan does not count, then one without a plan, then any. So callers
 * that somebody invents push out each other.
 *
 * An answer of the store may be older than a change that was heard of meanwhile. So whoever asks takes a mark before it asks;
 * an answer whose mark is not the present one any more is only kept as heard.
 */
#ifndef WEIR_KNOWN_PLANS_H
#define WEIR_KNOWN_PLANS_H

#include "slice.h"

#include <stdint.h>

enum { PLAN_NAME_MAX_BYTES = 64, PRINCIPAL_BYTES = 16 };

struct plan_name {
    unsigned char len; /* 0: no plan */
    char text[PLAN_NAME_MAX_BYTES + 1];
};

/* What is too long for a plan's name is cut behind one byte too many, so that it stays a name that no configuration has. */
struct plan_name plan_name_of(struct slice text);
struct slice plan_name_text(const struct plan_name *name);

struct known_plans;

struct known_plans *known_plans_new(void);
void known_plans_free(struct known_plans *plans);

/* True: *out is what the store says. */
bool known_plans_find(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES],
                      int64_t now_us, struct plan_name *out);
/* True: *out is the last that was heard, whether or not it still counts. */
bool known_plans_last(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES],
                      struct plan_name *out);

uint64_t known_plans_mark(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES]);
/* until_us: by the caller's monotonic clock; INT64_MAX where it lasts until it is changed. */
void known_plans_learn(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES],
                       uint64_t mark, const struct plan_name *name, int64_t until_us);

/* This caller's plan was changed; any may have been. */
void known_plans_doubt(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES]);
void known_plans_doubt_all(struct known_plans *plans);
/* Do changes reach this process? At first they do not. When they begin to, what was heard before does not count. */
void known_plans_set_told(struct known_plans *plans, bool is_told);

#endif
