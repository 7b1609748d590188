/* Three judges of the same requests: the C policy, lua/admit.lua and lua/settle.lua on a real Redis, and a model that is too
 * simple to be wrong. */
#ifndef WEIR_SUPPORT_ADMIT_H
#define WEIR_SUPPORT_ADMIT_H

#include "allowance.h"
#include "holds.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_KEYS = 6, MAX_CHARGES = 3, MAX_REQUESTS = 64, ALGORITHMS = 5 };

struct charge {
    size_t key; /* 0..WORLD_KEYS - 1 */
    struct limit_terms terms;
    int64_t cost;
    bool takes_hold;
    int64_t first_hold;
};

struct request { /* `count` identical ones */
    struct charge charges[MAX_CHARGES];
    size_t charge_count;
    size_t
        shadow_count; /* so many of the charges, the last ones, are in shadow: each decided for what passed, and by itself */
    int64_t count;
    bool settles;    /* no request: what becomes of the hold that its only charge took */
    int64_t charged; /* then; SETTLE_WIRE_RENEW */
};

static inline size_t enforced_count(const struct request *request)
{
    return request->charge_count - request->shadow_count;
}

struct standing {
    int64_t available, reset_us, retry_us;
};

struct outcome {
    int64_t passing;                     /* those that are enforced; of a settlement 1 if it was held */
    int64_t shadow_passing[MAX_CHARGES]; /* of these, by each charge in shadow; 0 for the others */
    struct standing standings[MAX_CHARGES];
};

/* What all judges must agree on; says in words where two do not, unless `quietly`. */
bool outcomes_agree(const struct request *request, const struct outcome *a, const struct outcome *b,
                    bool quietly);

/* ---- the C policy, as a store drives it ---- */
struct policy_world {
    struct budget budgets[WORLD_KEYS];
    struct holds holds[WORLD_KEYS];
};
void policy_forget(struct policy_world *world); /* all of it: as new */
void policy_admit(struct policy_world *world, const struct request *request, int64_t now_us,
                  struct outcome *out);

/* ---- the naive model: a list of what was admitted, when ---- */
enum { NAIVE_MAX_ADMISSIONS = 4096, NAIVE_MAX_HOLDS = 8192 };
struct admission {
    int64_t at_us, units;
    struct limit_terms terms; /* under which it was admitted */
};
struct naive_hold {
    int64_t serial, units, ends_us;
};
struct naive_key {
    size_t count;
    struct admission list[NAIVE_MAX_ADMISSIONS];
    size_t hold_count;
    struct naive_hold holds[NAIVE_MAX_HOLDS];
};
struct naive_world {
    struct naive_key keys[WORLD_KEYS];
};
void naive_forget(struct naive_world *world);
void naive_admit(struct naive_world *world, const struct request *request, int64_t now_us,
                 struct outcome *out);

/* ---- the script ---- */
struct script_call {
    const char *prefix;             /* of the keys: two worlds can live in one Redis */
    const struct request *requests; /* all of them settle, or none */
    size_t count;
    int64_t now_us; /* 0: the server's clock */
    int64_t seen;
};
struct script_answer {
    int64_t epoch, floor;
    bool has_more;
    redisReply *reply;        /* owned: freeReplyObject() */
    const redisReply *stamps; /* array of tag, epoch, ... */
    struct outcome outcomes[MAX_REQUESTS];
};

void script_load(redisContext *redis);
const char *script_sha1(void);
const char *settle_sha1(void);
void script_append(redisContext *redis, const struct script_call *call); /* pipelined */
void script_read(redisContext *redis, const struct script_call *call,
                 struct script_answer *answer); /* its answer */
void script_admit(redisContext *redis, const struct script_call *call,
                  struct script_answer *answer);                      /* both */
void key_name(const char *prefix, size_t key, char out[32]);          /* its holds are under PREFIX:hKEY */
redisReply *redis_says(redisContext *redis, const char *format, ...); /* fails the test on an error */
int64_t redis_number(redisContext *redis, const char *format, ...);

/* ---- generated histories ---- */
struct dice {
    uint64_t state;
};
int64_t roll(struct dice *dice, int64_t sides); /* 0..sides - 1 */

enum { HISTORY_HOLDS = 32 };
struct history {
    struct dice dice;
    int64_t now_us;
    int64_t promised_us; /* a moment at which some request was told that it would pass; 0: none */
    struct limit_terms rules[WORLD_KEYS];
    int64_t next_hold;
    struct charge held[HISTORY_HOLDS]; /* some of the holds that were taken, perhaps settled since */
    size_t held_count;
};
void history_begin(struct history *history, uint64_t seed);
/* Moves the clock: bursts, pauses, borders of windows, promised moments, steps back; sometimes a rule changes
 * as by a reload, also to another algorithm. */
void history_turn(struct history *history);
void history_request(struct history *history, struct request *request);
/* False: nothing is held. */
bool history_settlement(struct history *history, struct request *request);
void history_heard(struct history *history, const struct request *request, const struct outcome *outcome);

#endif
