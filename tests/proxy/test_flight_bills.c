/* Flight, bills: whatever comes in whatever order, as many loads begin as were paid for, each lock is given back once, and each
 * rider is told once. Generated histories; a failure prints the seed that repeats it (WEIR_SEED). */
#include "flight_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(flight_bills, .timeout = 120);

enum { RIDERS = 6, PRINCIPALS = 3, STEPS = 80, HISTORIES = 1500, KEPT_TOKENS = 128 };

struct client {
    struct passenger passenger;
    struct limit_charge charge;
    struct limit_request bill;
    bool is_aboard, was_told_paid;
};

static struct client clients[RIDERS];
static int budgets[PRINCIPALS];
static size_t paid;
static struct load_token granted[KEPT_TOKENS];
static size_t granted_count;
static bool has_head[FAKE_FETCHES];
static uint64_t dice;
static int refusals_told, rides_of_refused, loads; /* over all histories */

static uint64_t roll(uint64_t sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (dice >> 11) % sides;
}

static void on_paid(void *arg)
{
    struct client *client = arg;

    cr_assert(client->is_aboard && client->bill.ruling == RULING_ADMITTED);
    client->was_told_paid = true;
}

static void on_landed(void *arg)
{
    struct client *client = arg;
    struct rider *rider = &client->passenger.rider;

    cr_assert(client->is_aboard, "told once, and only who is aboard");
    client->is_aboard = false;
    switch (rider->outcome) {
    case BOARDING_STREAM:
        rides_of_refused += rider->is_refused;
        cr_assert(
            stream_join(rider->stream, &client->passenger.reader, passenger_on_more, &client->passenger));
        passenger_read(&client->passenger);
        return;
    case BOARDING_REFUSED:
        cr_assert(rider->is_refused && client->bill.ruling == RULING_REFUSED && client->bill.has_state[0]);
        cr_assert_gt(client->bill.states[0].retry_after_us, 0);
        refusals_told++;
        return;
    case BOARDING_OBJECT:
    case BOARDING_ALONE: object_release(&rider->object); return;
    case BOARDING_FAILED: return;
    }
}

static void board(struct client *client)
{
    const struct limit_rule *rule = &site_settings(rig.site)->limits[TEST_LIMIT_CLOSED];
    unsigned char principal = (unsigned char)roll(PRINCIPALS);

    if (client->is_aboard)
        return;
    stream_leave(&client->passenger.reader);
    passenger_init(&client->passenger, ROUTE_PATIENT, "client");
    client->charge = (struct limit_charge){.rule = rule, .terms = &rule->terms, .cost = 1 + (int64_t)roll(2)};
    memset(client->charge.principal, principal, sizeof(client->charge.principal));
    memset(&client->bill, 0, sizeof(client->bill));
    client->bill.site = rig.site;
    client->bill.charges[0] = client->charge;
    client->bill.charge_count = 1;
    client->bill.is_tentative = true;
    client->passenger.plan.charges = &client->charge;
    client->passenger.plan.charge_count = 1;
    if (roll(4) == 0) {
        flight_refresh(rig.flights, &client->passenger.plan);
        return;
    }
    client->passenger.rider.bill = &client->bill;
    client->passenger.rider.paid = on_paid;
    client->passenger.rider.landed = on_landed;
    client->passenger.rider.arg = client;
    client->is_aboard = true;
    flight_board(rig.flights, &client->passenger.rider);
}

static void leave(struct client *client)
{
    if (client->is_aboard)
        flight_leave(rig.flights, &client->passenger.rider);
    else
        stream_leave(&client->passenger.reader);
    client->is_aboard = false;
}

/* ---- the store ---- */

static struct fake_call *oldest_unanswered(enum fake_op op)
{
    for (size_t i = 0; i < rig.store.count; i++)
        if (rig.store.calls[i].op == op && !rig.store.calls[i].is_answered)
            return &rig.store.calls[i];
    return NULL;
}

static struct load_token grant(struct fake_call *call)
{
    struct load_token token = {1 + granted_count, 1};

    if (call->call.is_cancelled)
        return token; /* what nobody hears is the store's to give back */
    cr_assert_lt(granted_count, (size_t)KEPT_TOKENS);
    granted[granted_count++] = token;
    return token;
}

static void answer_lookup(struct fake_call *call)
{
    struct mono_ms now = loop_now(rig.loop);
    struct object *stale = test_object(1, 0, "declared", 3, 0, 60000, 60000, now),
                  *fresh = test_object(1, 0, "declared", 3, 60000, 60000, 60000, now);
    struct lookup_answer answer = {.kind = LOOKUP_PASS};

    switch (roll(8)) {
    case 0: answer = (struct lookup_answer){.kind = LOOKUP_FRESH, .object = fresh}; break;
    case 1:
        answer = (struct lookup_answer){.kind = LOOKUP_WAIT, .load = OTHERS_LOCK, .wait_ms = 60000};
        break;
    case 2: answer = (struct lookup_answer){.kind = LOOKUP_STALE, .object = stale}; break;
    case 3:
        answer = (struct lookup_answer){.kind = LOOKUP_STALE, .object = stale, .load = grant(call)};
        break;
    case 4: answer = (struct lookup_answer){.kind = LOOKUP_PROBE, .load = grant(call)}; break;
    default: answer = (struct lookup_answer){.kind = LOOKUP_LOAD, .load = grant(call)};
    }
    fake_tell_lookup(call, FAULT_NONE, answer);
    object_release(&stale);
    object_release(&fresh);
}

/* Flights of a turn may ask together; the same question is one with a count. */
static void answer_admit(struct fake_call *call)
{
    struct limit_state states[RIDERS];
    struct admit_answer answers[RIDERS];

    cr_assert_leq(call->count, (size_t)RIDERS);
    for (size_t i = 0; i < call->count; i++) {
        const struct limit_charge *charge = &call->tuples[i].charges[0];
        int *budget = &budgets[charge->principal[0]];

        cr_assert_eq(call->tuples[i].charge_count, 1);
        answers[i] = (struct admit_answer){.states = &states[i]};
        while (answers[i].admitted < call->tuples[i].count && *budget >= charge->cost) {
            *budget -= (int)charge->cost;
            answers[i].admitted++;
            paid++;
        }
        states[i] = (struct limit_state){.available = *budget,
                                         .retry_after_us = *budget >= charge->cost ? 0 : 60000000};
    }
    fake_tell_admit(call, FAULT_NONE, answers);
}

static void answer_store(void)
{
    struct fake_call *call;

    switch (roll(5)) {
    case 0:
    case 1:
        if ((call = oldest_unanswered(FAKE_LOOKUP)) != NULL)
            answer_lookup(call);
        return;
    case 2:
        if ((call = oldest_unanswered(FAKE_ADMIT)) != NULL)
            answer_admit(call);
        return;
    case 3:
        if ((call = oldest_unanswered(FAKE_FILL)) != NULL)
            fake_tell_fill(call, FAULT_NONE, roll(2) == 0 ? FILL_STORED : FILL_SUPERSEDED);
        return;
    default:
        if ((call = oldest_unanswered(FAKE_RELEASE)) != NULL)
            fake_tell_release(call, FAULT_NONE, true);
    }
}

/* ---- the upstream ---- */

static void answer_origin(void)
{
    static const struct header private = {{"cache-control", 13}, {"private", 7}};
    size_t at;

    if (fake_origin.started == 0 || fake_origin.fetches[at = roll(fake_origin.started)] == NULL)
        return;
    if (!has_head[at] && roll(5) > 0) {
        has_head[at] = true;
        switch (roll(4)) {
        case 0: fetch_head(at, 200, 2, &private, 1); return;
        case 1: fetch_head(at, 503, 2, NULL, 0); return;
        default: fetch_head(at, 200, 2, NULL, 0); return;
        }
    }
    if (has_head[at] && roll(3) > 0)
        fetch_body(at, SLICE("ok"));
    if (fake_origin.fetches[at] != NULL)
        fetch_end(at, has_head[at] && roll(4) > 0 ? FAULT_NONE : FAULT_ORIGIN_BROKE);
}

static size_t given_back(struct load_token token)
{
    size_t count = 0;

    for (size_t i = 0; i < rig.store.count; i++) {
        const struct fake_call *call = &rig.store.calls[i];

        count += (call->op == FAKE_FILL || call->op == FAKE_RELEASE) && call->token.hi == token.hi &&
                 call->token.lo == token.lo;
    }
    return count;
}

static void live_through(struct loop *loop, uint64_t seed)
{
    dice = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    memset(&fake_origin, 0, sizeof(fake_origin));
    memset(clients, 0, sizeof(clients));
    memset(has_head, 0, sizeof(has_head));
    paid = granted_count = 0;
    rig_start_on(loop, true);
    for (size_t i = 0; i < PRINCIPALS; i++)
        budgets[i] = (int)roll(4);
    for (int step = 0; step < STEPS; step++) {
        switch (roll(8)) {
        case 0:
        case 1: board(&clients[roll(RIDERS)]); break;
        case 2: leave(&clients[roll(RIDERS)]); break;
        case 3:
        case 4:
        case 5: answer_store(); break;
        case 6: answer_origin(); break;
        default: rig_turn();
        }
        cr_assert_eq(fake_origin.started, paid, "seed %llu, step %d: %zu loads, %zu paid",
                     (unsigned long long)seed, step, fake_origin.started, paid);
    }
    loads += (int)paid;
    for (size_t i = 0; i < RIDERS; i++)
        leave(&clients[i]);
    flights_cancel(rig.flights);
    rig_turn();
    for (size_t i = 0; i < granted_count; i++)
        cr_assert_eq(given_back(granted[i]), 1, "seed %llu: lock %zu of %zu", (unsigned long long)seed, i,
                     granted_count);
    rig_stop_on_loop();
}

Test(flight_bills, as_many_loads_begin_as_were_paid_for)
{
    const char *given = getenv("WEIR_SEED"), *many = getenv("WEIR_HISTORIES");
    struct loop *loop = loop_new();
    uint64_t first = given == NULL ? 1 : strtoull(given, NULL, 10);
    uint64_t count = many == NULL ? (given == NULL ? HISTORIES : 1) : strtoull(many, NULL, 10);

    for (uint64_t seed = first; seed < first + count; seed++)
        live_through(loop, seed);
    loop_free(loop);
    if (count >= HISTORIES)
        cr_assert(loads > HISTORIES / 2 && refusals_told > 100 && rides_of_refused > 20,
                  "it was about something: %d loads, %d refusals, %d who rode all the same", loads,
                  refusals_told, rides_of_refused);
}
