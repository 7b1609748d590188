/* The C policy and the script as judges, and the histories that all judges are given. */
#include "support_admit.h"

#include "admit_wire.h"
#include "lua_scripts.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool outcomes_agree(const struct request *request, const struct outcome *a, const struct outcome *b)
{
    bool agree = a->passing == b->passing;

    for (size_t j = 0; j < request->charge_count; j++)
        agree &= memcmp(&a->standings[j], &b->standings[j], sizeof(a->standings[j])) == 0;
    if (agree)
        return true;
    fprintf(stderr, "of %lld requests %lld or %lld pass\n", (long long)request->count, (long long)a->passing,
            (long long)b->passing);
    for (size_t j = 0; j < request->charge_count; j++) {
        const struct charge *charge = &request->charges[j];
        const struct standing *x = &a->standings[j], *y = &b->standings[j];
        fprintf(stderr,
                "key %zu, %lld in %lld us (tick %lld), cost %lld: available %lld or %lld, reset %lld or "
                "%lld, retry %lld or %lld\n",
                charge->key, (long long)charge->rule.limit, (long long)charge->rule.window_us,
                (long long)charge->rule.tick_us, (long long)charge->cost, (long long)x->available,
                (long long)y->available, (long long)x->reset_us, (long long)y->reset_us,
                (long long)x->retry_us, (long long)y->retry_us);
    }
    return false;
}

void policy_admit(struct policy_world *world, const struct request *request, int64_t now_us,
                  struct outcome *out)
{
    struct sliding_window states[MAX_CHARGES];
    bool must_keep[MAX_CHARGES];

    out->passing = request->count;
    for (size_t j = 0; j < request->charge_count; j++) {
        const struct charge *charge = &request->charges[j];
        states[j] = world->states[charge->key];
        must_keep[j] = sliding_window_advance(&states[j], &charge->rule, now_us);
        out->passing = sliding_window_passing(&states[j], &charge->rule, charge->cost, out->passing);
    }
    for (size_t j = 0; j < request->charge_count; j++) {
        const struct charge *charge = &request->charges[j];
        sliding_window_charge(&states[j], out->passing * charge->cost);
        if (out->passing > 0 || must_keep[j])
            world->states[charge->key] = states[j];
        out->standings[j] = (struct standing){
            .available = sliding_window_available(&states[j], &charge->rule),
            .reset_us = sliding_window_reset_us(&states[j], &charge->rule, now_us),
            .retry_us = sliding_window_retry_us(&states[j], &charge->rule, charge->cost, now_us),
        };
    }
}

/* ---- the script ---- */

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

const char *script_sha1(void)
{
    return admit_script()->sha1;
}

void script_load(redisContext *redis)
{
    const struct lua_script *script = admit_script();
    redisReply *reply = redis_says(redis, "SCRIPT LOAD %b", script->text, script->len);

    cr_assert_str_eq(reply->str, script->sha1, "the hash embedded is not that of the text embedded");
    freeReplyObject(reply);
}

void script_append(redisContext *redis, const struct script_call *call)
{
    static char batch[MAX_REQUESTS * (ADMIT_WIRE_TUPLE_BYTES + MAX_CHARGES * ADMIT_WIRE_CHARGE_BYTES)];
    char names[WORLD_KEYS][32], tags[32], now[24] = "", seen[24], key_count[24];
    const char *argv[8 + WORLD_KEYS] = {"EVALSHA", admit_script()->sha1};
    size_t lens[8 + WORLD_KEYS], place[WORLD_KEYS] = {0}, keys = 0, len = 0;

    for (size_t r = 0; r < call->count; r++) {
        const struct request *request = &call->requests[r];
        len += admit_wire_tuple(request->count, request->charge_count, batch + len);
        for (size_t j = 0; j < request->charge_count; j++) {
            const struct charge *charge = &request->charges[j];
            if (place[charge->key] == 0) {
                key_name(call->prefix, charge->key, names[keys]);
                argv[4 + keys] = names[keys];
                place[charge->key] = 2 + keys++;
            }
            len += admit_wire_charge(place[charge->key], &charge->rule, charge->cost, batch + len);
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
    for (size_t i = 0; i < 6 + keys; i++)
        lens[i] = strlen(argv[i]);
    lens[6 + keys] = len;
    redisAppendCommandArgv(redis, (int)(7 + keys), argv, lens);
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
        cr_assert_leq(at + 1 + 3 * call->requests[r].charge_count, numbers->elements);
        answer->outcomes[r].passing = numbers->element[at++]->integer;
        for (size_t j = 0; j < call->requests[r].charge_count; j++) {
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

/* ---- histories ---- */

int64_t roll(struct dice *dice, int64_t sides)
{
    dice->state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = dice->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (int64_t)(z % (uint64_t)sides);
}

static struct sliding_rule roll_rule(struct dice *dice)
{
    static const int64_t windows_us[] = {1,        1000,        7000,           250000,
                                         333333,   1000000,     2500000,        60000000,
                                         60000000, 86400000000, 31622400000000, SLIDING_WINDOW_MAX_US};
    struct sliding_rule rule = {.window_us =
                                    windows_us[roll(dice, sizeof(windows_us) / sizeof(*windows_us))]};
    int64_t ticks = rule.window_us;

    if (rule.window_us % 1000 == 0 && roll(dice, 2) == 0)
        ticks /= 1000;
    int64_t largest = SLIDING_WINDOW_EXACT / (ticks + 1);
    switch (roll(dice, 4)) {
    case 0: rule.limit = largest; break;
    case 1: rule.limit = 1 + roll(dice, 3); break;
    case 2: rule.limit = 1 + roll(dice, 40); break;
    case 3: rule.limit = 1 + roll(dice, largest); break;
    }
    if (rule.limit > largest)
        rule.limit = largest;
    rule.tick_us = sliding_window_tick(rule.limit, rule.window_us);
    cr_assert_neq(rule.tick_us, 0);
    return rule;
}

void history_begin(struct history *history, uint64_t seed)
{
    history->dice.state = seed;
    history->now_us = INT64_C(1764000000000000) + roll(&history->dice, INT64_C(1) << 40);
    for (size_t i = 0; i < WORLD_KEYS; i++)
        history->rules[i] = roll_rule(&history->dice);
}

/* Time moves in units of some key's window, so that each key is seen at all of its moments. */
static void move_clock(struct history *history)
{
    struct dice *dice = &history->dice;
    int64_t window_us = history->rules[roll(dice, WORLD_KEYS)].window_us;
    int64_t move = roll(dice, 100);

    if (window_us > INT64_C(100000000000)) /* years must not pass in a few turns: 2112 is the last year */
        window_us = INT64_C(100000000);
    if (move < 25) /* a burst */
        return;
    if (move < 70)
        history->now_us += roll(dice, window_us / 20 + 2);
    else if (move < 80)
        history->now_us += roll(dice, window_us);
    else if (move < 85)
        history->now_us += roll(dice, 3 * window_us);
    else if (move < 92) /* the border of a window, and its neighbours */
        history->now_us += window_us - history->now_us % window_us - 1 + roll(dice, 3);
    else if (move < 97) /* the clock is set back */
        history->now_us -= roll(dice, window_us);
    else
        history->now_us -= roll(dice, 5 * window_us);
}

void history_turn(struct history *history)
{
    struct dice *dice = &history->dice;

    move_clock(history);
    if (roll(dice, 150) == 0) { /* another limit, perhaps in another tick */
        struct sliding_rule *rule = &history->rules[roll(dice, WORLD_KEYS)];
        int64_t limit = roll(dice, 2) == 0 ? 1 + rule->limit / 2 : 1 + roll(dice, 50);
        int64_t tick_us = sliding_window_tick(limit, rule->window_us);
        if (tick_us != 0)
            *rule = (struct sliding_rule){limit, rule->window_us, tick_us};
    }
    if (roll(dice, 300) == 0) /* another window too */
        history->rules[roll(dice, WORLD_KEYS)] = roll_rule(dice);
}

static int64_t roll_cost(struct dice *dice, int64_t limit)
{
    switch (roll(dice, 8)) {
    case 0: return limit;
    case 1: return limit + 1;
    case 2: return 1 + limit / 2;
    case 3: return 1 + roll(dice, limit);
    case 4: return 1 + limit / 7;
    case 5: return 1 + roll(dice, 3);
    default: return 1;
    }
}

void history_request(struct history *history, struct request *request)
{
    struct dice *dice = &history->dice;
    size_t first = (size_t)roll(dice, WORLD_KEYS);

    request->charge_count = (size_t)(roll(dice, 10) == 0 ? 0 : 1 + roll(dice, MAX_CHARGES));
    request->count = roll(dice, 3) > 0 ? 1 : roll(dice, 12);
    for (size_t j = 0; j < request->charge_count; j++) { /* the keys of one request are distinct */
        struct charge *charge = &request->charges[j];
        charge->key = (first + j) % WORLD_KEYS;
        charge->rule = history->rules[charge->key];
        charge->cost = roll_cost(dice, charge->rule.limit);
    }
}
