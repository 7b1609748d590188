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
    static const char *const names[] = {"sliding_window", "sliding_log", "token_bucket", "fixed_window"};
    bool agree = a->passing == b->passing;

    for (size_t j = 0; j < request->charge_count; j++)
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
        fprintf(
            stderr,
            "key %zu, %s, %lld in %lld us (tick %lld, burst %lld, calendar %d), cost %lld: available %lld or "
            "%lld, reset %lld or %lld, retry %lld or %lld\n",
            charge->key, names[terms->algorithm], (long long)terms->limit, (long long)terms->window_us,
            (long long)terms->tick_us, (long long)terms->burst, (int)terms->calendar, (long long)charge->cost,
            (long long)x->available, (long long)y->available, (long long)x->reset_us, (long long)y->reset_us,
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
        free(ring_of(&world->budgets[i]));
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
        passing = budget_passing(&budgets[j], &charges[j].terms, charges[j].cost, passing);
    }
    for (size_t j = 0; j < charge_count; j++) {
        const struct charge *charge = &charges[j];
        if (passing > 0)
            policy_charge(&budgets[j], passing * charge->cost);
        if (passing > 0 || must_keep[j])
            policy_keep(&world->budgets[charge->key], &budgets[j]);
        standings[j] = (struct standing){
            .available = budget_available(&budgets[j], &charge->terms),
            .reset_us = budget_reset_us(&budgets[j], &charge->terms, now_us),
            .retry_us = budget_retry_us(&budgets[j], &charge->terms, charge->cost, now_us),
        };
    }
    return passing;
}

void policy_admit(struct policy_world *world, const struct request *request, int64_t now_us,
                  struct outcome *out)
{
    size_t enforced = enforced_count(request);

    out->passing = policy_decide(world, request->charges, enforced, request->count, now_us, out->standings);
    for (size_t j = enforced; j < request->charge_count; j++)
        out->shadow_passing[j] =
            policy_decide(world, &request->charges[j], 1, out->passing, now_us, &out->standings[j]);
}

/* ---- the script ---- */

enum { WHAT_PASSED = -1 }; /* the count of a tuple in shadow, as lua/admit.lua says */

static const struct lua_script *admit_script(void)
{
    for (const struct lua_script *script = lua_scripts; script->name != NULL; script++)
        if (strcmp(script->name, "admit") == 0)
            return script;
    cr_assert_fail("admit.lua is not embedded");
    return NULL;
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
    const struct lua_script *script = admit_script();
    const char *planted = getenv("WEIR_PLANTED_ADMIT");
    redisReply *reply = planted != NULL ? load_planted(redis, planted)
                                        : redis_says(redis, "SCRIPT LOAD %b", script->text, script->len);

    cr_assert(planted != NULL || strcmp(reply->str, script->sha1) == 0,
              "the hash embedded is not that of the text embedded");
    snprintf(loaded_sha1, sizeof(loaded_sha1), "%s", reply->str);
    freeReplyObject(reply);
}

void script_append(redisContext *redis, const struct script_call *call)
{
    static char batch[MAX_REQUESTS *
                      ((1 + MAX_CHARGES) * ADMIT_WIRE_TUPLE_BYTES + MAX_CHARGES * ADMIT_WIRE_CHARGE_BYTES)];
    char names[WORLD_KEYS][32], tags[32], now[24] = "", seen[24], key_count[24];
    const char *argv[9 + WORLD_KEYS] = {"EVALSHA", script_sha1()};
    size_t lens[9 + WORLD_KEYS], place[WORLD_KEYS] = {0}, keys = 0, len = 0;
    char readings[WORLD_KEYS];

    for (size_t r = 0; r < call->count; r++) {
        const struct request *request = &call->requests[r];
        len += admit_wire_tuple(request->count, enforced_count(request), batch + len);
        for (size_t j = 0; j < request->charge_count; j++) {
            const struct charge *charge = &request->charges[j];
            if (j >= enforced_count(request))
                len += admit_wire_tuple(WHAT_PASSED, 1, batch + len);
            if (place[charge->key] == 0) {
                key_name(call->prefix, charge->key, names[keys]);
                argv[4 + keys] = names[keys];
                readings[keys] = ADMIT_WIRE_WHOLE;
                place[charge->key] = 2 + keys++;
            }
            if (admit_wire_reading(&charge->terms) == ADMIT_WIRE_LOG)
                readings[place[charge->key] - 2] = ADMIT_WIRE_LOG;
            len += admit_wire_charge(place[charge->key], &charge->terms, charge->cost, batch + len);
        }
    }
    snprintf(tags, sizeof(tags), "%s:tags", call->prefix);
    snprintf(key_count, sizeof(key_count), "%zu", 1 + keys);
    snprintf(seen, sizeof(seen), "%lld", (long long)call->seen);
    if (call->now_us != 0)
        snprintf(now, sizeof(now), "%lld", (long long)call->now_us);
    argv[2] = key_count;
    argv[3] = tags;
    argv[4 + keys] = now;
    argv[5 + keys] = seen;
    argv[6 + keys] = batch;
    argv[7 + keys] = readings;
    for (size_t i = 0; i < 6 + keys; i++)
        lens[i] = strlen(argv[i]);
    lens[6 + keys] = len;
    lens[7 + keys] = keys;
    redisAppendCommandArgv(redis, (int)(8 + keys), argv, lens);
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
