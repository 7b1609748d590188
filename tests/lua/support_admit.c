/* The C policy and the script as judges of the same requests. */
#include "support_admit.h"

#include "admit_wire.h"
#include "lua_scripts.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool outcomes_agree(const struct request *request, const struct outcome *a, const struct outcome *b,
                    bool quietly)
{
    static const char *const names[] = {"sliding_window", "sliding_log", "token_bucket", "fixed_window",
                                        "concurrency"};
    bool agree = a->passing == b->passing;

    for (size_t j = 0; j < request->charge_count && !request->settles; j++)
        agree &= memcmp(&a->standings[j], &b->standings[j], sizeof(a->standings[j])) == 0 &&
                 (j < enforced_count(request) || a->shadow_passing[j] == b->shadow_passing[j]);
    if (agree || quietly)
        return agree;
    fprintf(stderr, "of %lld requests %lld or %lld pass\n", (long long)request->count, (long long)a->passing,
            (long long)b->passing);
    for (size_t j = 0; j < request->charge_count; j++) {
        const struct charge *charge = &request->charges[j];
        const struct limit_terms *terms = &charge->terms;
        const struct standing *x = &a->standings[j], *y = &b->standings[j];
        fprintf(stderr,
                "key %zu, %s, %lld in %lld us (tick %lld, burst %lld, calendar %d, lease %lld), cost %lld: "
                "available %lld or "
                "%lld, reset %lld or %lld, retry %lld or %lld\n",
                charge->key, names[terms->algorithm], (long long)terms->limit, (long long)terms->window_us,
                (long long)terms->tick_us, (long long)terms->burst, (int)terms->calendar,
                (long long)terms->lease_us, (long long)charge->cost, (long long)x->available,
                (long long)y->available, (long long)x->reset_us, (long long)y->reset_us,
                (long long)x->retry_us, (long long)y->retry_us);
        if (j >= enforced_count(request))
            fprintf(stderr, "in shadow: %lld or %lld pass\n", (long long)a->shadow_passing[j],
                    (long long)b->shadow_passing[j]);
    }
    return false;
}

static struct log_run *ring_of(const struct budget *budget)
{
    return budget->algorithm == LIMIT_SLIDING_LOG ? budget->of.log.ring : NULL;
}

void policy_forget(struct policy_world *world)
{
    for (size_t i = 0; i < WORLD_KEYS; i++)
        free(ring_of(&world->budgets[i])), free(world->holds[i].heap);
    memset(world, 0, sizeof(*world));
}

static void policy_keep(struct budget *kept, const struct budget *budget)
{
    if (ring_of(kept) != ring_of(budget))
        free(ring_of(kept));
    *kept = *budget;
}

static void policy_charge(struct budget *budget, int64_t units)
{
    uint32_t room = budget_room_wanted(budget);

    if (room > 0)
        sliding_log_move(&budget->of.log, calloc(room, sizeof(struct log_run)), room);
    budget_charge(budget, units);
}

static struct hold_token policy_token(int64_t serial)
{
    return (struct hold_token){0xaa, (uint64_t)serial};
}

static int64_t policy_held(struct policy_world *world, const struct charge *charge, int64_t now_us)
{
    if (charge->terms.lease_us == 0)
        return 0;
    holds_drop_ended(&world->holds[charge->key], now_us);
    return world->holds[charge->key].units;
}

static bool policy_hold(struct policy_world *world, const struct charge *charge, int64_t serial,
                        int64_t now_us)
{
    struct holds *holds = &world->holds[charge->key];
    uint32_t room = holds_room_wanted(holds, 1);

    if (room > 0)
        free(holds_move(holds, malloc(holds_memory_bytes(room)), room));
    return holds_take(holds, policy_token(serial), charge->cost, now_us + charge->terms.lease_us);
}

/* Some of the charges as one tuple; returns how many of `count` pass. */
static int64_t policy_decide(struct policy_world *world, const struct charge *charges, size_t charge_count,
                             int64_t count, int64_t now_us, struct standing *standings)
{
    struct budget budgets[MAX_CHARGES];
    bool must_keep[MAX_CHARGES];
    int64_t passing = count;

    for (size_t j = 0; j < charge_count; j++) {
        budgets[j] = world->budgets[charges[j].key];
        must_keep[j] = budget_advance(&budgets[j], &charges[j].terms, now_us);
        budget_note_asked(&world->budgets[charges[j].key], &charges[j].terms);
        passing = allowance_passing(&budgets[j], &charges[j].terms, policy_held(world, &charges[j], now_us),
                                    charges[j].cost, passing);
    }
    for (size_t j = 0; j < charge_count; j++) {
        const struct charge *charge = &charges[j];
        bool is_charged = passing > 0 && !charge->takes_hold;
        int64_t held;
        if (is_charged)
            policy_charge(&budgets[j], passing * charge->cost);
        for (int64_t n = 0; n < passing && charge->takes_hold; n++)
            policy_hold(world, charge, charge->first_hold + n, now_us);
        if (is_charged || must_keep[j])
            policy_keep(&world->budgets[charge->key], &budgets[j]);
        held = policy_held(world, charge, now_us);
        standings[j] = (struct standing){
            .available = allowance_available(&budgets[j], &charge->terms, held),
            .reset_us = budget_reset_us(&budgets[j], &charge->terms, now_us),
            .retry_us = allowance_retry_us(&budgets[j], &charge->terms, held, charge->cost, now_us),
        };
    }
    return passing;
}

static bool policy_settle(struct policy_world *world, const struct request *request, int64_t now_us)
{
    const struct charge *charge = &request->charges[0];
    struct budget budget = world->budgets[charge->key];
    bool must_keep;
    int64_t owing;

    policy_held(world, charge, now_us);
    if (request->charged == SETTLE_WIRE_RENEW)
        return policy_hold(world, charge, charge->first_hold, now_us);
    if (!holds_end(&world->holds[charge->key], policy_token(charge->first_hold)))
        return false;
    if (request->charged == 0)
        return true;
    must_keep = budget_advance(&budget, &charge->terms, now_us);
    budget_note_asked(&world->budgets[charge->key], &charge->terms);
    owing = budget_owing(&budget, &charge->terms, request->charged);
    if (owing > 0)
        policy_charge(&budget, owing);
    if (owing > 0 || must_keep)
        policy_keep(&world->budgets[charge->key], &budget);
    return true;
}

void policy_admit(struct policy_world *world, const struct request *request, int64_t now_us,
                  struct outcome *out)
{
    size_t enforced = enforced_count(request);

    if (request->settles) {
        out->passing = policy_settle(world, request, now_us);
        return;
    }
    out->passing = policy_decide(world, request->charges, enforced, request->count, now_us, out->standings);
    for (size_t j = enforced; j < request->charge_count; j++)
        out->shadow_passing[j] =
            policy_decide(world, &request->charges[j], 1, out->passing, now_us, &out->standings[j]);
}

/* ---- the script ---- */

enum { WHAT_PASSED = -1 }; /* the count of a tuple in shadow, as lua/admit.lua says */

static const struct lua_script *script_named(const char *name)
{
    for (const struct lua_script *script = lua_scripts; script->name != NULL; script++)
        if (strcmp(script->name, name) == 0)
            return script;
    cr_assert_fail("%s.lua is not embedded", name);
    return NULL;
}

static const struct lua_script *admit_script(void)
{
    return script_named("admit");
}

void key_name(const char *prefix, size_t key, char out[32])
{
    snprintf(out, 32, "%s:%zu", prefix, key);
}

static redisReply *checked(redisReply *reply)
{
    cr_assert_not_null(reply, "Redis is gone");
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "Redis says: %s", reply->str);
    return reply;
}

redisReply *redis_says(redisContext *redis, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = redisvCommand(redis, format, arguments);
    va_end(arguments);
    return checked(reply);
}

int64_t redis_number(redisContext *redis, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = checked(redisvCommand(redis, format, arguments));
    va_end(arguments);
    int64_t number = reply->integer;
    cr_assert_eq(reply->type, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
    return number;
}

static char loaded_sha1[41];

const char *script_sha1(void)
{
    return loaded_sha1;
}

const char *settle_sha1(void)
{
    return script_named("settle")->sha1;
}

/* A copy of the script in which a fault was planted, to see whether this suite notices (tests/verify). */
static redisReply *load_planted(redisContext *redis, const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t len;

    cr_assert_not_null(file, "%s", path);
    len = fread(text, 1, sizeof(text), file);
    cr_assert(feof(file));
    fclose(file);
    return redis_says(redis, "SCRIPT LOAD %b", text, len);
}

void script_load(redisContext *redis)
{
    const struct lua_script *script = admit_script(), *settle = script_named("settle");
    const char *planted = getenv("WEIR_PLANTED_ADMIT");
    redisReply *reply = planted != NULL ? load_planted(redis, planted)
                                        : redis_says(redis, "SCRIPT LOAD %b", script->text, script->len);

    cr_assert(planted != NULL || strcmp(reply->str, script->sha1) == 0,
              "the hash embedded is not that of the text embedded");
    snprintf(loaded_sha1, sizeof(loaded_sha1), "%s", reply->str);
    freeReplyObject(reply);
    freeReplyObject(redis_says(redis, "SCRIPT LOAD %b", settle->text, settle->len));
}

/* The keys of a call, each once. */
struct call_keys {
    char names[2 * WORLD_KEYS][32];
    char readings[2 * WORLD_KEYS];
    size_t state_place[WORLD_KEYS], holds_place[WORLD_KEYS], count;
};

static size_t place_key(struct call_keys *keys, size_t *place, char reading)
{
    if (*place == 0) {
        keys->readings[keys->count] = reading;
        *place = 2 + keys->count++;
    }
    return *place;
}

static struct limit_places place_keys(struct call_keys *keys, const char *prefix, const struct charge *charge)
{
    struct limit_places at = {0, 0};

    if (charge->terms.lease_us > 0) {
        at.holds = place_key(keys, &keys->holds_place[charge->key], ADMIT_WIRE_HOLDS);
        snprintf(keys->names[at.holds - 2], sizeof(keys->names[0]), "%s:h%zu", prefix, charge->key);
    }
    if (charge->terms.algorithm == LIMIT_CONCURRENCY) {
        at.state = at.holds;
        return at;
    }
    at.state = place_key(keys, &keys->state_place[charge->key], ADMIT_WIRE_WHOLE);
    key_name(prefix, charge->key, keys->names[at.state - 2]);
    if (admit_wire_reading(&charge->terms) == ADMIT_WIRE_LOG)
        keys->readings[at.state - 2] = ADMIT_WIRE_LOG;
    return at;
}

static size_t write_request(struct call_keys *keys, const char *prefix, const struct request *request,
                            char *out)
{
    size_t len = admit_wire_tuple(request->count, enforced_count(request), out);

    for (size_t j = 0; j < request->charge_count; j++) {
        const struct charge *charge = &request->charges[j];
        if (j >= enforced_count(request))
            len += admit_wire_tuple(WHAT_PASSED, 1, out + len);
        len += admit_wire_charge(place_keys(keys, prefix, charge), &charge->terms, charge->cost,
                                 charge->takes_hold ? charge->first_hold : ADMIT_WIRE_NO_HOLD, out + len);
    }
    return len;
}

static size_t write_settlement(struct call_keys *keys, const char *prefix, const struct request *request,
                               char *out)
{
    const struct charge *charge = &request->charges[0];

    return settle_wire_item(place_keys(keys, prefix, charge), &charge->terms, charge->cost,
                            charge->first_hold, request->charged, out);
}

void script_append(redisContext *redis, const struct script_call *call)
{
    static char batch[MAX_REQUESTS *
                      ((1 + MAX_CHARGES) * ADMIT_WIRE_TUPLE_BYTES + MAX_CHARGES * ADMIT_WIRE_CHARGE_BYTES)];
    bool settles = call->count > 0 && call->requests[0].settles;
    char tags[32], now[24] = "", seen[24], key_count[24];
    const char *argv[9 + 2 * WORLD_KEYS] = {"EVALSHA", settles ? settle_sha1() : script_sha1()};
    size_t lens[9 + 2 * WORLD_KEYS], len = 0;
    struct call_keys keys = {.count = 0};

    for (size_t r = 0; r < call->count; r++)
        len += settles ? write_settlement(&keys, call->prefix, &call->requests[r], batch + len)
                       : write_request(&keys, call->prefix, &call->requests[r], batch + len);
    snprintf(tags, sizeof(tags), "%s:tags", call->prefix);
    snprintf(key_count, sizeof(key_count), "%zu", 1 + keys.count);
    snprintf(seen, sizeof(seen), "%lld", (long long)call->seen);
    if (call->now_us != 0)
        snprintf(now, sizeof(now), "%lld", (long long)call->now_us);
    argv[2] = key_count;
    argv[3] = tags;
    for (size_t i = 0; i < keys.count; i++)
        argv[4 + i] = keys.names[i];
    argv[4 + keys.count] = now;
    argv[5 + keys.count] = seen;
    argv[6 + keys.count] = batch;
    argv[7 + keys.count] = keys.readings;
    argv[8 + keys.count] = "00000000000000aa";
    for (size_t i = 0; i < 9 + keys.count; i++)
        lens[i] = i == 6 + keys.count ? len : i == 7 + keys.count ? keys.count : strlen(argv[i]);
    redisAppendCommandArgv(redis, (int)(9 + keys.count), argv, lens);
}

void script_read(redisContext *redis, const struct script_call *call, struct script_answer *answer)
{
    void *reply = NULL;

    cr_assert_eq(redisGetReply(redis, &reply), REDIS_OK, "%s", redis->errstr);
    answer->reply = checked(reply);
    cr_assert_eq(answer->reply->elements, 5);
    answer->epoch = answer->reply->element[0]->integer;
    answer->floor = answer->reply->element[1]->integer;
    answer->has_more = answer->reply->element[2]->integer != 0;
    answer->stamps = answer->reply->element[3];
    const redisReply *numbers = answer->reply->element[4];
    size_t at = 0;
    for (size_t r = 0; r < call->count; r++) {
        if (call->requests[r].settles) {
            answer->outcomes[r].passing = numbers->element[at++]->integer;
            continue;
        }
        cr_assert_leq(at + 1 + 3 * call->requests[r].charge_count + call->requests[r].shadow_count,
                      numbers->elements);
        answer->outcomes[r].passing = numbers->element[at++]->integer;
        for (size_t j = 0; j < call->requests[r].charge_count; j++) {
            if (j >= enforced_count(&call->requests[r]))
                answer->outcomes[r].shadow_passing[j] = numbers->element[at++]->integer;
            answer->outcomes[r].standings[j] =
                (struct standing){numbers->element[at]->integer, numbers->element[at + 1]->integer,
                                  numbers->element[at + 2]->integer};
            at += 3;
        }
    }
    cr_assert_eq(at, numbers->elements);
}

void script_admit(redisContext *redis, const struct script_call *call, struct script_answer *answer)
{
    script_append(redis, call);
    script_read(redis, call, answer);
}
