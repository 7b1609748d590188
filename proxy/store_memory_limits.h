/* Limit table: how much has each principal used of each limit, in this process?
 *
 * The memory store's admit. One tuple is one locked section over all shards that it touches: admitted by
 * every limit or charged to none. A refusal charges nothing. State that counts for nothing any more is swept
 * a little with every new key. The table holds a million keys at most. Beyond that a new key takes the place
 * of one among a few: of a key that nobody asked about for a second, and of those the one that would expire first. A
 * limit may then forget somebody, which is the price of not letting clients with made-up keys fill the memory or
 * lock others out. The same happens, a few keys at a
 * time, where the logs of sliding_log limits take more than half a gigabyte. Private to store_memory.c.
 */
#ifndef WEIR_STORE_MEMORY_LIMITS_H
#define WEIR_STORE_MEMORY_LIMITS_H

#include "allowance.h"
#include "holds.h"
#include "store.h"

struct limit_table;
struct tracked_key;

struct limit_work { /* room to decide one charge in; its content is the table's own */
    struct tracked_key *tracked;
    struct budget budget;
    int64_t held, heard_us;
    uint64_t hash, rule_print;
    bool must_keep;
};

struct limit_table *limit_table_new(size_t max_keys);
void limit_table_free(struct limit_table *table);

/* Returns how many of tuple->count pass, and writes tuple->charge_count states. `work` has as many places. Holds get tokens of
 * `owner`. */
int64_t limit_table_decide(struct limit_table *table, const struct admit_tuple *tuple, uint64_t owner,
                           int64_t now_us, struct limit_work *work, struct limit_state *states_out);

/* Was it held? */
bool limit_table_settle(struct limit_table *table, const struct hold_settlement *settlement, uint64_t owner,
                        int64_t now_us);

/* Another store said that so much is left of a limit now: a key is decided from there on, unless more of it was used here. What was heard
 * of the last so many keys is remembered: a table of a fixed size, made when something is heard for the first time. */
void limit_table_heed(struct limit_table *table, const struct limit_charge *charge, int64_t available,
                      int64_t now_us);

/* All that the caller used of the limit of this name is forgotten. Was there something? */
bool limit_table_reset(struct limit_table *table, const unsigned char principal[16], const char *limit);

int64_t limit_table_keys(struct limit_table *table, const char *limit); /* those of the limit of this name */
size_t
limit_table_count(struct limit_table *table); /* keys tracked, ended ones that were not swept yet included */

#endif
