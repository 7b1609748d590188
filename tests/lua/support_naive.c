/* The naive model: keeps every admission of a key with its moment, and asks the definition itself, in 128
 * bits.
 *
 *     previous * (W - e) + (current + k) * W <= L * W
 *
 * Nothing is solved for: how many pass is counted one by one, available and retry are searched for. */
#include "support_admit.h"

#include <criterion/criterion.h>

__extension__ typedef __int128 wide;

static int64_t last_us(const struct naive_key *key)
{
    return key->count == 0 ? 0 : key->list[key->count - 1].at_us;
}

static int64_t units_in(const struct naive_key *key, int64_t window_us, int64_t index)
{
    int64_t units = 0;

    for (size_t i = 0; i < key->count; i++)
        if (key->list[i].at_us / window_us == index)
            units += key->list[i].units;
    return units;
}

/* All that the key remembers becomes one admission at `at_us`, of at most the limit. */
static void redate(struct naive_key *key, const struct sliding_rule *rule, int64_t at_us)
{
    int64_t index = last_us(key) / key->window_us;
    int64_t units = units_in(key, key->window_us, index) + units_in(key, key->window_us, index - 1);

    key->list[0] = (struct admission){at_us, units < rule->limit ? units : rule->limit};
    key->count = 1;
    key->window_us = rule->window_us;
}

/* The two things that rewrite a history. True: to be remembered even if the request is refused. */
static bool reinterpret(struct naive_key *key, const struct sliding_rule *rule, int64_t now_us)
{
    if (key->count == 0)
        return false;
    if (last_us(key) > now_us + rule->window_us) {
        redate(key, rule, now_us);
        return true;
    }
    if (key->window_us != rule->window_us)
        redate(key, rule, last_us(key));
    return false;
}

static int64_t at_most_weighable(int64_t units, int64_t window)
{
    int64_t most = (SLIDING_WINDOW_EXACT - 1) / window;

    return units < most ? units : most;
}

static bool passes(const struct naive_key *key, const struct sliding_rule *rule, int64_t cost, int64_t now_us)
{
    int64_t at_us = last_us(key) > now_us ? last_us(key) : now_us;
    int64_t index = at_us / rule->window_us;
    wide window = rule->window_us / rule->tick_us;
    wide elapsed = at_us % rule->window_us / rule->tick_us;
    wide current = units_in(key, rule->window_us, index);
    wide previous = at_most_weighable(units_in(key, rule->window_us, index - 1), (int64_t)window);

    return previous * (window - elapsed) + (current + cost) * window <= rule->limit * window;
}

static void admit(struct naive_key *key, const struct sliding_rule *rule, int64_t units, int64_t now_us)
{
    int64_t at_us = last_us(key) > now_us ? last_us(key) : now_us;
    int64_t oldest_index = at_us / rule->window_us - 1;
    size_t kept = 0;

    for (size_t i = 0; i < key->count; i++) /* forget what no window reaches any more */
        if (key->list[i].at_us / rule->window_us >= oldest_index)
            key->list[kept++] = key->list[i];
    key->count = kept;
    if (kept > 0 && key->list[kept - 1].at_us == at_us) {
        key->list[kept - 1].units += units;
    } else {
        cr_assert_lt(key->count, NAIVE_MAX_ADMISSIONS);
        key->list[key->count++] = (struct admission){at_us, units};
    }
    key->window_us = rule->window_us;
}

static int64_t search_available(const struct naive_key *key, const struct sliding_rule *rule, int64_t now_us)
{
    int64_t passing = 0, refused = rule->limit + 1;

    while (refused - passing > 1) {
        int64_t middle = passing + (refused - passing) / 2;
        if (passes(key, rule, middle, now_us))
            passing = middle;
        else
            refused = middle;
    }
    return passing;
}

static int64_t search_retry_us(const struct naive_key *key, const struct sliding_rule *rule, int64_t cost,
                               int64_t now_us)
{
    int64_t refused_us = now_us, passing_us = now_us + 4 * rule->window_us;

    if (cost > rule->limit)
        return SLIDING_WINDOW_NEVER;
    if (passes(key, rule, cost, now_us))
        return 0;
    cr_assert(passes(key, rule, cost, passing_us), "a key is closed for longer than four windows");
    while (passing_us - refused_us > 1) {
        int64_t middle = refused_us + (passing_us - refused_us) / 2;
        if (passes(key, rule, cost, middle))
            passing_us = middle;
        else
            refused_us = middle;
    }
    return passing_us - now_us;
}

static struct standing stand(const struct naive_key *key, const struct charge *charge, int64_t now_us)
{
    int64_t window_us = charge->rule.window_us;
    int64_t at_us = last_us(key) > now_us ? last_us(key) : now_us;

    return (struct standing){
        .available = search_available(key, &charge->rule, now_us),
        .reset_us = (at_us / window_us + 1) * window_us - now_us,
        .retry_us = search_retry_us(key, &charge->rule, charge->cost, now_us),
    };
}

void naive_admit(struct naive_world *world, const struct request *request, int64_t now_us,
                 struct outcome *out)
{
    static struct naive_key views[MAX_CHARGES];
    bool must_keep[MAX_CHARGES];

    for (size_t j = 0; j < request->charge_count; j++) {
        views[j] = world->keys[request->charges[j].key];
        must_keep[j] = reinterpret(&views[j], &request->charges[j].rule, now_us);
    }
    for (out->passing = 0; out->passing < request->count; out->passing++) {
        bool all_allow = true;
        for (size_t j = 0; j < request->charge_count; j++)
            all_allow &= passes(&views[j], &request->charges[j].rule, request->charges[j].cost, now_us);
        if (!all_allow)
            break;
        for (size_t j = 0; j < request->charge_count; j++)
            admit(&views[j], &request->charges[j].rule, request->charges[j].cost, now_us);
    }
    for (size_t j = 0; j < request->charge_count; j++) {
        if (out->passing > 0 || must_keep[j])
            world->keys[request->charges[j].key] = views[j];
        out->standings[j] = stand(&views[j], &request->charges[j], now_us);
    }
}
