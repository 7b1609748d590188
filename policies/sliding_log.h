/* Sliding log: how much of a limit is left for one key, exactly?
 *
 * An admission at moment s counts until s + window, exclusive. A request of cost k passes while what counts
 * plus k is at most the limit, so that no interval of the window's length holds more than the limit, wherever
 * it begins.
 *
 * What is kept is one run for each distinct moment of an admission that counts: the moment, and how many
 * units had been admitted up to and with it. Both grow from run to run, so that "how much counts now?" is one
 * subtraction once the oldest run that counts is found, and "when would k fit?" is the end of the run at a
 * known sum. The oldest is looked for from the one that was the oldest at the last admission, in strides that
 * double: one look in the usual case, a logarithm of the runs that ended meanwhile at worst; nothing is
 * scanned. Each run holds at least a unit of what counted when the last one was admitted, hence there are
 * never more runs than units of the limit.
 *
 * The last run is in the state itself, the older ones are in a ring that the caller provides: a client whose
 * requests came together needs none. Sums are counted modulo 2^32; only their differences mean something.
 *
 * Time never runs backwards for a key; a state stamped more than a window ahead is taken into the present:
 * all that it remembers counts as admitted now. A changed window or limit counts at once, over the admissions
 * that are remembered.
 */
#ifndef WEIR_SLIDING_LOG_H
#define WEIR_SLIDING_LOG_H

#include "limit_numbers.h"

#include <stdbool.h>

enum { SLIDING_LOG_MAX_LIMIT = 1000000, SLIDING_LOG_MAX_ROOM = 1 << 20 /* runs */ };

struct log_rule {
    int64_t limit; /* units per window, 1..SLIDING_LOG_MAX_LIMIT */
    int64_t window_us;
};

struct log_run {
    int64_t at_us;
    uint32_t total; /* units admitted up to and with this run */
};

struct sliding_log {      /* all zero: never seen */
    int64_t last_us;      /* the last run */
    uint32_t total;       /* of the last run */
    uint32_t base;        /* units that had been admitted before the oldest run that counts */
    uint32_t count;       /* older runs, in the ring from place `first` on */
    uint32_t first, room; /* room: a power of two, or 0 */
    struct log_run *ring; /* the caller's; NULL where room is 0 */
    int64_t now_us;       /* the key's time in this decision: sliding_log_advance() sets it */
};

/* As sliding_window_advance(). Never writes into the ring, so that a copy of the state can be dropped after a
 * refusal. */
bool sliding_log_advance(struct sliding_log *state, const struct log_rule *rule, int64_t now_us);
int64_t sliding_log_remembered(const struct sliding_log *state); /* of a state as it was stored */

/* Keeps how much it remembers and its last moment, and of the others nothing: all counts as admitted then. */
void sliding_log_forget_moments(struct sliding_log *state);

int64_t sliding_log_available(const struct sliding_log *state, const struct log_rule *rule);
/* Units that the state could count beside those it has, whether the limit allows them or not. */
int64_t sliding_log_room(const struct sliding_log *state);

/* 0, or how many runs the ring must have room for before a charge: more than it has. sliding_log_move() into
 * it first. */
uint32_t sliding_log_room_wanted(const struct sliding_log *state);
/* Copies the runs that count, in order, and makes `ring` the state's ring. The caller frees the old one. */
void sliding_log_move(struct sliding_log *state, struct log_run *ring, uint32_t room);
void sliding_log_charge(struct sliding_log *state, int64_t units);

/* From now_us until the oldest admission ends; 0 where nothing counts. */
int64_t sliding_log_reset_us(const struct sliding_log *state, const struct log_rule *rule, int64_t now_us);
/* Exact: a microsecond earlier it is refused. */
int64_t sliding_log_retry_us(const struct sliding_log *state, const struct log_rule *rule, int64_t cost,
                             int64_t now_us);
int64_t sliding_log_ttl_ms(const struct sliding_log *state, const struct log_rule *rule, int64_t now_us);

#endif
