/* The naive model: keeps every admission of a key with its moment and the limit that allowed it, and asks the
 * definitions themselves, in 128 bits and with the C library's calendar.
 *
 *     sliding_window   previous * (W - e) + (current + k) * W <= L * W
 *     sliding_log      all units of the last W, and k, are at most L
 *     token_bucket     what was taken, less what dripped in since, and k, is at most the burst
 *     fixed_window     all units of this unit of the calendar, and k, are at most L
 *     concurrency      k is at most L
 *
 * and of a limit that holds, k is what all holds that have not ended take, and the request's own.
 *
 * Nothing is solved for: how many pass is counted one by one, available, reset and retry are searched for.
 * Time never runs backwards for a key: its time is that of its last admission, if that is later. */
#include "support_admit.h"

#include "admit_wire.h"

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

__extension__ typedef __int128 wide;

static int64_t last_us(const struct naive_key *key)
{
    return key->count == 0 ? 0 : key->list[key->count - 1].at_us;
}

static const struct limit_terms *last_terms(const struct naive_key *key)
{
    return &key->list[key->count - 1].terms;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t units, int64_t most)
{
    return units < most ? units : most;
}

/* ---- what counts, by each definition ---- */

static int64_t units_in(const struct naive_key *key, int64_t window_us, int64_t index)
{
    int64_t units = 0;

    for (size_t i = 0; i < key->count; i++)
        if (key->list[i].at_us / window_us == index)
            units += key->list[i].units;
    return units;
}

static int64_t units_after(const struct naive_key *key, int64_t ended_us)
{
    int64_t units = 0;

    for (size_t i = 0; i < key->count; i++)
        if (key->list[i].at_us > ended_us)
            units += key->list[i].units;
    return units;
}

/* Names the unit of the calendar: two moments are in the same one if their names are equal, and names grow.
 */
static int64_t name_of_window(const struct limit_terms *terms, int64_t at_us)
{
    time_t seconds = (time_t)(at_us / 1000000);
    struct tm parts;

    gmtime_r(&seconds, &parts);
    switch (terms->calendar) {
    case CALENDAR_MULTIPLES: return at_us / terms->window_us;
    case CALENDAR_WEEK: /* the day on which its Monday lies */
        return seconds / 86400 - (parts.tm_wday + 6) % 7;
    case CALENDAR_MONTH: return parts.tm_year * 12 + parts.tm_mon;
    }
    return 0;
}

static int64_t units_in_window_of(const struct naive_key *key, const struct limit_terms *terms, int64_t at_us)
{
    int64_t name = name_of_window(terms, at_us), units = 0;

    for (size_t i = 0; i < key->count; i++)
        if (name_of_window(terms, key->list[i].at_us) == name)
            units += key->list[i].units;
    return units;
}

/* The previous window's count is cut to what can be weighed exactly. */
static int64_t most_weighable(const struct limit_terms *terms)
{
    return (LIMIT_EXACT - 1) / (terms->window_us / terms->tick_us);
}

/* A bucket's parts below full, and how many parts make a token. */
struct shortage {
    wide parts, token;
    int64_t at_us;
};

static wide quotient_up(wide number, wide by)
{
    return (number + by - 1) / by;
}

/* Where more may be used than was held, another burst can be owed. */
static wide most_missing(const struct limit_terms *terms)
{
    return terms->lease_us > 0 ? 2 * (wide)terms->burst : terms->burst;
}

/* The shortage as of the moment, by the rule that is asked. */
static struct shortage drip(struct shortage was, const struct limit_terms *terms, int64_t at_us)
{
    wide token = terms->window_us / terms->tick_us;
    wide parts = was.token == token || was.token == 0 ? was.parts : quotient_up(was.parts, was.token) * token;
    wide ticks = at_us > was.at_us ? at_us / terms->tick_us - was.at_us / terms->tick_us : 0;

    if (parts > most_missing(terms) * token)
        parts = most_missing(terms) * token;
    parts -= terms->limit * ticks;
    return (struct shortage){parts > 0 ? parts : 0, token, at_us};
}

static struct shortage shortage_of(const struct naive_key *key)
{
    struct shortage shortage = {0};

    for (size_t i = 0; i < key->count; i++) {
        shortage = drip(shortage, &key->list[i].terms, key->list[i].at_us);
        shortage.parts += key->list[i].units * shortage.token;
    }
    return shortage;
}

/* What the definition leaves free, in parts that `*unit_out` of make one unit; may be below nothing. */
static wide free_parts(const struct naive_key *key, const struct limit_terms *terms, int64_t now_us,
                       wide *unit_out)
{
    int64_t at_us = later(last_us(key), now_us);
    wide ticks = terms->window_us / terms->tick_us;

    *unit_out = 1;
    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: {
        int64_t index = at_us / terms->window_us;
        wide elapsed = at_us % terms->window_us / terms->tick_us;
        wide current = units_in(key, terms->window_us, index);
        wide previous = at_most(units_in(key, terms->window_us, index - 1), most_weighable(terms));
        *unit_out = ticks;
        return (terms->limit - current) * ticks - previous * (ticks - elapsed);
    }
    case LIMIT_SLIDING_LOG: return terms->limit - units_after(key, at_us - terms->window_us);
    case LIMIT_TOKEN_BUCKET:
        *unit_out = ticks;
        return terms->burst * ticks - drip(shortage_of(key), terms, at_us).parts;
    case LIMIT_FIXED_WINDOW: return terms->limit - units_in_window_of(key, terms, at_us);
    case LIMIT_CONCURRENCY: return terms->limit;
    }
    return 0;
}

static bool passes(const struct naive_key *key, const struct limit_terms *terms, int64_t cost, int64_t now_us)
{
    wide unit, left = free_parts(key, terms, now_us, &unit);

    return cost * unit <= left;
}

/* ---- what rewrites a history: a clock far ahead, another algorithm, other windows ---- */

static int64_t units_remembered(const struct naive_key *key)
{
    const struct limit_terms *terms = last_terms(key);
    int64_t at_us = last_us(key);
    struct shortage shortage;

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        return units_in(key, terms->window_us, at_us / terms->window_us) +
               at_most(units_in(key, terms->window_us, at_us / terms->window_us - 1), most_weighable(terms));
    case LIMIT_SLIDING_LOG: return units_after(key, -1);
    case LIMIT_TOKEN_BUCKET:
        shortage = shortage_of(key);
        return (int64_t)quotient_up(shortage.parts, shortage.token);
    case LIMIT_FIXED_WINDOW: return units_in_window_of(key, terms, at_us);
    case LIMIT_CONCURRENCY: return 0;
    }
    return 0;
}

/* All that the key remembers becomes one admission at `at_us`, of at most `most`. */
static void redate(struct naive_key *key, const struct limit_terms *terms, int64_t most, int64_t at_us)
{
    int64_t units = at_most(units_remembered(key), most);

    key->list[0] = (struct admission){at_us, units, *terms};
    key->count = 1;
}

/* A log that another algorithm is asked of is known by its last moment alone from then on. */
static void note_asked(struct naive_key *key, const struct limit_terms *asked)
{
    struct limit_terms was;

    if (key->count == 0 || last_terms(key)->algorithm != LIMIT_SLIDING_LOG ||
        asked->algorithm == LIMIT_SLIDING_LOG || asked->algorithm == LIMIT_CONCURRENCY)
        return;
    was = *last_terms(key);
    redate(key, &was, INT64_MAX, last_us(key));
}

/* True: to be remembered even if the request is refused. */
static bool take_into_present(struct naive_key *key, const struct limit_terms *terms, int64_t now_us)
{
    if (last_us(key) <= now_us + terms->window_us)
        return false;
    if (terms->algorithm == LIMIT_TOKEN_BUCKET) /* nothing drips in between then and now */
        key->list[key->count++] = (struct admission){now_us, 0, *terms};
    else
        redate(key, terms, terms->limit, now_us);
    return true;
}

static bool reinterpret(struct naive_key *key, const struct limit_terms *terms, int64_t now_us)
{
    if (key->count == 0 || terms->algorithm == LIMIT_CONCURRENCY)
        return false;
    const struct limit_terms was = *last_terms(key);
    if (was.algorithm != terms->algorithm) {
        if (units_remembered(key) == 0) {
            key->count = 0;
            return false;
        }
        redate(key, terms, limit_capacity(terms), last_us(key));
        return take_into_present(key, terms, now_us);
    }
    if (take_into_present(key, terms, now_us))
        return true;
    if (terms->algorithm == LIMIT_SLIDING_WINDOW && was.window_us != terms->window_us)
        redate(key, terms, terms->limit, last_us(key));
    if (terms->algorithm == LIMIT_FIXED_WINDOW &&
        (was.calendar != terms->calendar || was.window_us != terms->window_us))
        redate(key, terms, INT64_MAX, last_us(key));
    return false;
}

/* ---- admitting ---- */

/* So that lists stay short: what can never count again by any rule that the definitions allow to come. */
static void forget(struct naive_key *key, const struct limit_terms *terms, int64_t at_us)
{
    size_t kept = 0;

    if (terms->algorithm == LIMIT_TOKEN_BUCKET) {
        if (key->count > 0 && drip(shortage_of(key), terms, at_us).parts == 0)
            key->count = 0;
        return;
    }
    for (size_t i = 0; i < key->count; i++) {
        int64_t then_us = key->list[i].at_us;
        bool counts = terms->algorithm == LIMIT_SLIDING_WINDOW
                          ? then_us / terms->window_us >= at_us / terms->window_us - 1
                      : terms->algorithm == LIMIT_SLIDING_LOG
                          ? then_us > at_us - terms->window_us
                          : name_of_window(terms, then_us) == name_of_window(terms, at_us);
        if (counts)
            key->list[kept++] = key->list[i];
    }
    key->count = kept;
}

static void admit(struct naive_key *key, const struct limit_terms *terms, int64_t units, int64_t now_us)
{
    int64_t at_us = later(last_us(key), now_us);

    forget(key, terms, at_us);
    if (key->count > 0 && last_us(key) == at_us && memcmp(last_terms(key), terms, sizeof(*terms)) == 0) {
        key->list[key->count - 1].units += units;
        return;
    }
    cr_assert_lt(key->count + 2, NAIVE_MAX_ADMISSIONS);
    key->list[key->count++] = (struct admission){at_us, units, *terms};
}

/* ---- searching for what the policies calculate ---- */

static int64_t search_available(const struct naive_key *key, const struct limit_terms *terms, int64_t others,
                                int64_t now_us)
{
    wide unit, left = free_parts(key, terms, now_us, &unit);

    left -= others * unit;
    return left > 0 ? (int64_t)(left / unit) : 0;
}

static int64_t horizon_us(const struct limit_terms *terms, int64_t now_us)
{
    return now_us + 4 * terms->window_us + 2 * limit_period_us(terms) + 2000;
}

static int64_t search_passing_us(const struct naive_key *key, const struct limit_terms *terms, int64_t cost,
                                 int64_t now_us)
{
    int64_t refused_us = now_us, passing_us = horizon_us(terms, now_us);

    cr_assert(passes(key, terms, cost, passing_us), "a key is closed for ever");
    while (passing_us - refused_us > 1) {
        int64_t middle = refused_us + (passing_us - refused_us) / 2;
        if (passes(key, terms, cost, middle))
            passing_us = middle;
        else
            refused_us = middle;
    }
    return passing_us;
}

static int64_t search_retry_us(const struct naive_key *key, const struct limit_terms *terms, int64_t cost,
                               int64_t others, int64_t now_us)
{
    if (cost > limit_capacity(terms))
        return LIMIT_NEVER;
    if (cost + others <= limit_capacity(terms) && passes(key, terms, cost + others, now_us))
        return 0;
    if (passes(key, terms, cost, now_us))
        return LIMIT_UNFORESEEN;
    if (cost + others > limit_capacity(terms))
        others = 0; /* when it passes beside them nobody can say, but not before it would without them */
    return search_passing_us(key, terms, cost + others, now_us) - now_us;
}

/* The end of the present window, the end of the oldest admission, or the next token. */
static int64_t search_reset_us(const struct naive_key *key, const struct limit_terms *terms, int64_t now_us)
{
    int64_t at_us = later(last_us(key), now_us);
    int64_t same_us = at_us, other_us = at_us + terms->window_us;

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return (at_us / terms->window_us + 1) * terms->window_us - now_us;
    case LIMIT_SLIDING_LOG:
        for (size_t i = 0; i < key->count; i++)
            if (key->list[i].at_us > at_us - terms->window_us)
                return key->list[i].at_us + terms->window_us - now_us;
        return 0;
    case LIMIT_TOKEN_BUCKET:
        if (drip(shortage_of(key), terms, at_us).parts == 0)
            return 0;
        return search_passing_us(key, terms, search_available(key, terms, 0, now_us) + 1, now_us) - now_us;
    case LIMIT_CONCURRENCY: return 0;
    case LIMIT_FIXED_WINDOW:
        while (other_us - same_us > 1) {
            int64_t middle = same_us + (other_us - same_us) / 2;
            if (name_of_window(terms, middle) == name_of_window(terms, at_us))
                same_us = middle;
            else
                other_us = middle;
        }
        return other_us - now_us;
    }
    return 0;
}

void naive_forget(struct naive_world *world)
{
    for (size_t i = 0; i < WORLD_KEYS; i++)
        world->keys[i].count = world->keys[i].hold_count = 0;
}

static void copy_key(struct naive_key *to, const struct naive_key *from)
{
    to->count = from->count;
    memcpy(to->list, from->list, from->count * sizeof(*from->list));
}

/* ---- holds ---- */

/* What has ended is gone for good, also where the clock is set back. */
static int64_t held(struct naive_key *key, const struct limit_terms *terms, int64_t now_us)
{
    size_t kept = 0;
    int64_t units = 0;

    if (terms->lease_us == 0)
        return 0;
    for (size_t i = 0; i < key->hold_count; i++)
        if (key->holds[i].ends_us > now_us) {
            units += key->holds[i].units;
            key->holds[kept++] = key->holds[i];
        }
    key->hold_count = kept;
    return units;
}

static struct naive_hold *find_hold(struct naive_key *key, int64_t serial)
{
    for (size_t i = 0; i < key->hold_count; i++)
        if (key->holds[i].serial == serial)
            return &key->holds[i];
    return NULL;
}

/* True: it was there already. */
static bool hold(struct naive_key *key, const struct charge *charge, int64_t serial, int64_t now_us)
{
    struct naive_hold *found = find_hold(key, serial);

    if (found != NULL) {
        found->ends_us = now_us + charge->terms.lease_us;
        return true;
    }
    if ((wide)held(key, &charge->terms, now_us) + charge->cost > LIMIT_EXACT)
        return false;
    cr_assert_lt(key->hold_count, NAIVE_MAX_HOLDS);
    key->holds[key->hold_count++] =
        (struct naive_hold){serial, charge->cost, now_us + charge->terms.lease_us};
    return false;
}

/* What can be counted beside what is: see budget_owing(). */
static int64_t room_for(const struct naive_key *key, const struct limit_terms *terms, int64_t now_us)
{
    int64_t at_us = later(last_us(key), now_us);
    wide token = terms->window_us / terms->tick_us;

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        return later(0, most_weighable(terms) - units_in(key, terms->window_us, at_us / terms->window_us));
    case LIMIT_SLIDING_LOG: return SLIDING_LOG_MAX_LIMIT - units_after(key, at_us - terms->window_us);
    case LIMIT_TOKEN_BUCKET:
        return (int64_t)((most_missing(terms) * token - drip(shortage_of(key), terms, at_us).parts) / token);
    case LIMIT_FIXED_WINDOW: return LIMIT_EXACT - units_in_window_of(key, terms, at_us);
    case LIMIT_CONCURRENCY: return 0;
    }
    return 0;
}

static bool settle(struct naive_key *key, const struct request *request, int64_t now_us)
{
    static struct naive_key view;
    const struct charge *charge = &request->charges[0];
    struct naive_hold *found;
    int64_t owing;
    bool must_keep;

    held(key, &charge->terms, now_us);
    if (request->charged == SETTLE_WIRE_RENEW)
        return hold(key, charge, charge->first_hold, now_us);
    found = find_hold(key, charge->first_hold);
    if (found == NULL)
        return false;
    *found = key->holds[--key->hold_count];
    if (request->charged == 0)
        return true;
    copy_key(&view, key);
    must_keep = reinterpret(&view, &charge->terms, now_us);
    note_asked(key, &charge->terms);
    owing = at_most(request->charged, room_for(&view, &charge->terms, now_us));
    if (owing > 0)
        admit(&view, &charge->terms, owing, now_us);
    if (owing > 0 || must_keep)
        copy_key(key, &view);
    return true;
}

/* Some of the charges together; returns how many of `count` pass. */
static int64_t decide(struct naive_world *world, const struct charge *charges, size_t charge_count,
                      int64_t count, int64_t now_us, struct standing *standings)
{
    static struct naive_key views[MAX_CHARGES];
    bool must_keep[MAX_CHARGES];
    int64_t passing;

    for (size_t j = 0; j < charge_count; j++) {
        copy_key(&views[j], &world->keys[charges[j].key]);
        must_keep[j] = reinterpret(&views[j], &charges[j].terms, now_us);
        note_asked(&world->keys[charges[j].key], &charges[j].terms);
    }
    for (passing = 0; passing < count; passing++) {
        bool all_allow = true;
        for (size_t j = 0; j < charge_count; j++)
            all_allow &= passes(
                &views[j], &charges[j].terms,
                charges[j].cost + held(&world->keys[charges[j].key], &charges[j].terms, now_us), now_us);
        if (!all_allow)
            break;
        for (size_t j = 0; j < charge_count; j++)
            if (charges[j].takes_hold)
                hold(&world->keys[charges[j].key], &charges[j], charges[j].first_hold + passing, now_us);
            else
                admit(&views[j], &charges[j].terms, charges[j].cost, now_us);
    }
    for (size_t j = 0; j < charge_count; j++) {
        const struct charge *charge = &charges[j];
        int64_t others = held(&world->keys[charge->key], &charge->terms, now_us);
        if ((passing > 0 && !charge->takes_hold) || must_keep[j])
            copy_key(&world->keys[charge->key], &views[j]);
        standings[j] = (struct standing){
            .available = search_available(&views[j], &charge->terms, others, now_us),
            .reset_us = search_reset_us(&views[j], &charge->terms, now_us),
            .retry_us = search_retry_us(&views[j], &charge->terms, charge->cost, others, now_us),
        };
    }
    return passing;
}

void naive_admit(struct naive_world *world, const struct request *request, int64_t now_us,
                 struct outcome *out)
{
    size_t enforced = enforced_count(request);

    if (request->settles) {
        out->passing = settle(&world->keys[request->charges[0].key], request, now_us);
        return;
    }
    out->passing = decide(world, request->charges, enforced, request->count, now_us, out->standings);
    for (size_t j = enforced; j < request->charge_count; j++)
        out->shadow_passing[j] =
            decide(world, &request->charges[j], 1, out->passing, now_us, &out->standings[j]);
}
