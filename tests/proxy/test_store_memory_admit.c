/* Store memory, admit: limits decided together, in order, and charged to all or none. */
#include "loop.h"
#include "settings.h"
#include "store.h"
#include "store_memory_limits.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { SECOND_US = 1000000, MOST = 64 };

static int64_t clock_us = 1000 * (int64_t)SECOND_US;

static int64_t read_clock(void)
{
    return clock_us;
}

static struct limit_rule per_client = {.name = (char[]){"per_client"},
                                       .terms = {.limit = 5, .window_us = SECOND_US, .tick_us = 1}};
static struct limit_rule everyone = {.name = (char[]){"everyone"},
                                     .terms = {.limit = 8, .window_us = 10 * SECOND_US, .tick_us = 1}};

static struct limit_charge charge_of(const struct limit_rule *rule, unsigned char principal, int64_t cost)
{
    struct limit_charge charge = {.rule = rule, .terms = &rule->terms, .cost = cost};

    charge.principal[0] = principal;
    charge.principal[15] = 1;
    return charge;
}

struct fixture {
    struct near *near;
    struct store_memory *memory;
    struct loop *loop;
    struct store *store;
    int calls;
    size_t count;
    int64_t admitted[MOST];
    struct limit_state states[MOST];
};

static void set_up(struct fixture *f)
{
    *f = (struct fixture){.near = near_new(1 << 20, 1 << 20), .loop = loop_new()};
    f->memory = store_memory_new(f->near);
    store_memory_use_clock(f->memory, read_clock);
    f->store = store_memory_join(f->memory, f->loop);
}

static void tear_down(struct fixture *f)
{
    f->store->ops->free(f->store);
    loop_free(f->loop);
    store_memory_free(f->memory);
    near_free(f->near);
}

static void on_admit(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct fixture *f = arg;

    cr_assert_eq(fault, FAULT_NONE);
    f->calls++;
    f->count = count;
    for (size_t i = 0; i < count; i++) {
        f->admitted[i] = answers[i].admitted;
        f->states[i] = answers[i].states[0]; /* of its first charge */
    }
}

static void admit(struct fixture *f, const struct admit_tuple *tuples, size_t count)
{
    f->calls = 0;
    store_admit(f->store, tuples, count, on_admit, f);
    cr_assert_eq(f->calls, 0, "never inside the start");
    loop_turn(f->loop, 0);
    cr_assert_eq(f->calls, 1);
    cr_assert_eq(f->count, count);
}

static int64_t admit_one(struct fixture *f, const struct limit_charge *charges, size_t charge_count,
                         int64_t count)
{
    struct admit_tuple tuple = {charges, charge_count, count};

    admit(f, &tuple, 1);
    return f->admitted[0];
}

Test(store_memory_admit, the_first_so_many_of_the_identical_ones_pass)
{
    struct fixture f;
    struct limit_charge charge = charge_of(&per_client, 1, 1);

    set_up(&f);
    cr_assert_eq(admit_one(&f, &charge, 1, 3), 3);
    cr_assert_eq(f.states[0].available, 2);
    cr_assert_eq(admit_one(&f, &charge, 1, 4), 2);
    cr_assert_eq(f.states[0].available, 0);
    cr_assert_gt(f.states[0].retry_after_us, 0);
    cr_assert_not(f.states[0].never);
    clock_us += f.states[0].retry_after_us;
    cr_assert_eq(admit_one(&f, &charge, 1, 1), 1, "after the wait it was told it passes");
    tear_down(&f);
}

Test(store_memory_admit, a_shadow_is_decided_for_what_passed_and_makes_nothing_refuse)
{
    struct fixture f;
    struct limit_charge enforced = charge_of(&everyone, 1, 1), watched = charge_of(&per_client, 1, 1),
                        also_watched = charge_of(&per_client, 2, 3),
                        too_costly = charge_of(&per_client, 3, 6);
    struct admit_tuple tuples[] = {
        {&enforced, 1, 6}, {&watched, 1, ADMIT_WHAT_PASSED}, {&also_watched, 1, ADMIT_WHAT_PASSED},
        {&enforced, 1, 6}, {&watched, 1, ADMIT_WHAT_PASSED}, {&too_costly, 1, ADMIT_WHAT_PASSED}};

    set_up(&f);
    admit(&f, tuples, 6);
    cr_assert_eq(f.admitted[0], 6);
    cr_assert_eq(f.admitted[1], 5, "of the six");
    cr_assert_eq(f.admitted[2], 1);
    cr_assert_eq(f.admitted[3], 2, "8 in all: a shadow that refuses takes nothing back");
    cr_assert_eq(f.admitted[4], 0);
    cr_assert_eq(f.admitted[5], 0);
    cr_assert(f.states[5].never);
    cr_assert_eq(admit_one(&f, &enforced, 1, 1), 0);
    clock_us += 2 * SECOND_US;
    tuples[0].count = 1;
    admit(&f, tuples, 2);
    cr_assert_eq(f.admitted[0], 0);
    cr_assert_eq(f.admitted[1], 0, "what is refused is not the shadow's to judge");
    cr_assert_eq(f.states[1].available, 5, "and not charged to it");
    tear_down(&f);
}

Test(store_memory_admit, principals_and_limits_are_apart)
{
    struct fixture f;
    struct limit_charge one = charge_of(&per_client, 1, 1), two = charge_of(&per_client, 2, 1),
                        other = charge_of(&everyone, 1, 1);

    set_up(&f);
    cr_assert_eq(admit_one(&f, &one, 1, 9), 5);
    cr_assert_eq(admit_one(&f, &two, 1, 9), 5);
    cr_assert_eq(admit_one(&f, &other, 1, 9), 8);
    tear_down(&f);
}

Test(store_memory_admit, all_limits_allow_or_none_is_charged)
{
    struct fixture f;
    struct limit_charge first[2] = {charge_of(&everyone, 9, 1), charge_of(&per_client, 1, 1)};
    struct limit_charge second[2] = {charge_of(&per_client, 2, 1),
                                     charge_of(&everyone, 9, 1)}; /* the other way round */
    struct limit_charge alone = charge_of(&per_client, 2, 1);

    set_up(&f);
    cr_assert_eq(admit_one(&f, first, 2, 9), 5);
    cr_assert_eq(f.states[0].available, 3, "what the one refused the other did not pay");
    cr_assert_eq(admit_one(&f, second, 2, 9), 3);
    cr_assert_eq(admit_one(&f, second, 2, 1), 0);
    cr_assert_eq(admit_one(&f, &alone, 1, 9), 2, "the refused one left two");
    tear_down(&f);
}

Test(store_memory_admit, a_cost_above_the_limit_never_passes_and_says_so)
{
    struct fixture f;
    struct limit_charge charge = charge_of(&per_client, 1, 6);

    set_up(&f);
    cr_assert_eq(admit_one(&f, &charge, 1, 1), 0);
    cr_assert(f.states[0].never);
    cr_assert_eq(f.states[0].retry_after_us, 0);
    charge.cost = 5;
    cr_assert_eq(admit_one(&f, &charge, 1, 2), 1);
    cr_assert_not(f.states[0].never);
    tear_down(&f);
}

static void on_unlimited(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct fixture *f = arg;

    cr_assert_eq(fault, FAULT_NONE);
    cr_assert_eq(count, 1);
    cr_assert_eq(answers[0].admitted, 7);
    f->calls++;
}

Test(store_memory_admit, a_tuple_without_limits_always_passes)
{
    struct fixture f;
    struct admit_tuple tuple = {NULL, 0, 7};

    set_up(&f);
    store_admit(f.store, &tuple, 1, on_unlimited, &f);
    loop_turn(f.loop, 0);
    cr_assert_eq(f.calls, 1);
    tear_down(&f);
}

Test(store_memory_admit, a_reload_keeps_what_was_counted)
{
    struct fixture f;
    struct limit_rule reloaded = {.name = (char[]){"per_client"},
                                  .terms = {.limit = 7, .window_us = SECOND_US, .tick_us = 1}};
    struct limit_charge before = charge_of(&per_client, 1, 1), after = charge_of(&reloaded, 1, 1);

    set_up(&f);
    cr_assert_eq(admit_one(&f, &before, 1, 9), 5);
    cr_assert_eq(admit_one(&f, &after, 1, 9), 2);
    tear_down(&f);
}

Test(store_memory_admit, a_cancelled_admit_charges_nothing)
{
    struct fixture f;
    struct limit_charge charge = charge_of(&per_client, 1, 1);
    struct admit_tuple tuple = {&charge, 1, 4};
    struct store_call *call;

    set_up(&f);
    call = store_admit(f.store, &tuple, 1, on_admit, &f);
    store_cancel(&call);
    tuple = (struct admit_tuple){NULL, SIZE_MAX, 1}; /* it is the caller's again */
    loop_turn(f.loop, 0);
    cr_assert_eq(f.calls, 0);
    cr_assert_eq(admit_one(&f, &charge, 1, 9), 5);
    tear_down(&f);
}

/* Two tables see the same random history; the one in batches with counts, the other request by request. */
Test(store_memory_admit, a_batch_decides_as_its_requests_one_by_one)
{
    struct limit_table *batched = limit_table_new(1000), *single = limit_table_new(1000);
    struct limit_work work[2];
    struct limit_state states[2], single_states[2];
    int64_t now_us = 0, passed = 0, refused = 0;

    srand(3);
    for (int step = 0; step < 20000; step++) {
        struct limit_charge charges[2] = {charge_of(&per_client, (unsigned char)(rand() % 3), 1 + rand() % 3),
                                          charge_of(&everyone, 9, 1 + rand() % 2)};
        struct admit_tuple tuple = {charges, 1 + (size_t)(rand() % 2), 1 + rand() % 4},
                           one = {charges, tuple.charge_count, 1};
        int64_t together, apart = 0;

        now_us += rand() % 3 == 0 ? rand() % (2 * SECOND_US) : rand() % 1000;
        together = limit_table_decide(batched, &tuple, 0, now_us, work, states);
        for (int64_t i = 0; i < tuple.count; i++)
            apart += limit_table_decide(single, &one, 0, now_us, work, single_states);
        cr_assert_eq(together, apart, "step %d", step);
        for (size_t i = 0; i < tuple.charge_count; i++) {
            cr_assert_eq(states[i].available, single_states[i].available);
            cr_assert_eq(states[i].retry_after_us, single_states[i].retry_after_us);
            cr_assert_eq(states[i].reset_us, single_states[i].reset_us);
        }
        passed += together;
        refused += tuple.count - together;
    }
    cr_assert_gt(passed, 1000);
    cr_assert_gt(refused, 1000);
    limit_table_free(batched);
    limit_table_free(single);
}

Test(store_memory_admit, a_refusal_leaves_nothing_and_idle_keys_go)
{
    struct limit_table *table = limit_table_new(1000000);
    struct limit_work work[1];
    struct limit_state state;
    int64_t now_us = 0;

    for (int i = 0; i < 1000; i++) {
        struct limit_charge charge = charge_of(&per_client, 0, 6);
        struct admit_tuple tuple = {&charge, 1, 1};

        charge.principal[1] = (unsigned char)i;
        charge.principal[2] = (unsigned char)(i >> 8);
        cr_assert_eq(limit_table_decide(table, &tuple, 0, now_us, work, &state), 0);
    }
    cr_assert_eq(limit_table_count(table), 0);
    for (int i = 0; i < 200000; i++) {
        struct limit_charge charge = charge_of(&per_client, 0, 1);
        struct admit_tuple tuple = {&charge, 1, 1};

        for (int b = 0; b < 4; b++)
            charge.principal[b] = (unsigned char)((uint64_t)i * 2654435761u >> (8 * b));
        charge.principal[5] = (unsigned char)i;
        charge.principal[6] = (unsigned char)(i >> 8);
        charge.principal[7] = (unsigned char)(i >> 16);
        cr_assert_eq(limit_table_decide(table, &tuple, 0, now_us, work, &state), 1);
        now_us += 1000; /* a state counts for three seconds at most: 3000 keys are alive */
    }
    cr_assert_leq(limit_table_count(table), 20000, "%zu", limit_table_count(table));
    limit_table_free(table);
}

/* So many that the table must make room for most of them. */
Test(store_memory_admit, a_million_invented_keys_neither_fill_the_memory_nor_free_who_is_asked_about,
     .timeout = 60)
{
    enum { INVENTED = 1100000, MOST = 1000000, EACH = 1000 };
    struct limit_rule daily = {.name = (char[]){"daily"},
                               .terms = {.algorithm = LIMIT_FIXED_WINDOW,
                                         .limit = 5,
                                         .window_us = INT64_C(86400) * SECOND_US,
                                         .tick_us = 1}};
    struct limit_table *table = limit_table_new(MOST);
    struct limit_work work[1];
    struct limit_state state;
    int64_t now_us = INT64_C(86400) * SECOND_US;
    struct limit_charge customer = charge_of(&daily, 255, 1);
    struct admit_tuple of_customer = {&customer, 1, 5};

    cr_assert_eq(limit_table_decide(table, &of_customer, 0, now_us, work, &state), 5);
    for (int i = 0; i < INVENTED; i++) {
        struct limit_charge charge = charge_of(&daily, 0, 1);
        struct admit_tuple tuple = {&charge, 1, 1};
        uint64_t spread = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;

        memcpy(charge.principal, &spread, sizeof(spread));
        cr_assert_eq(limit_table_decide(table, &tuple, 0, now_us, work, &state), 1);
        now_us += 100; /* ten thousand a second */
        if (i % EACH == 0)
            cr_assert_eq(limit_table_decide(table, &of_customer, 0, now_us, work, &state), 0,
                         "who is refused again and again is not forgotten: %d", i);
    }
    cr_assert_leq(limit_table_count(table), (size_t)MOST);
    cr_assert_gt(limit_table_count(table), (size_t)MOST * 9 / 10);
    cr_assert_eq((size_t)limit_table_keys(table, "daily"), limit_table_count(table));
    limit_table_free(table);
}

Test(store_memory_admit, keys_are_counted_by_their_limit)
{
    struct limit_table *table = limit_table_new(1600);
    struct limit_work work[2];
    struct limit_state states[2];

    cr_assert_eq(limit_table_keys(table, "per_client"), 0);
    for (int i = 0; i < 20000; i++) {
        struct limit_charge charges[2] = {charge_of(&per_client, 0, 1), charge_of(&everyone, 0, 1)};
        struct admit_tuple tuple = {charges, 2, 1};
        uint64_t spread = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;

        memcpy(charges[0].principal, &spread, sizeof(spread));
        limit_table_decide(table, &tuple, 0, i, work, states);
        cr_assert_eq((size_t)(limit_table_keys(table, "per_client") + limit_table_keys(table, "everyone")),
                     limit_table_count(table));
        if (i == 5)
            cr_assert(limit_table_keys(table, "per_client") == 6 && limit_table_keys(table, "everyone") == 1);
    }
    cr_assert_eq(limit_table_keys(table, "nobody"), 0);
    limit_table_reset(table, charge_of(&everyone, 0, 1).principal, "everyone");
    cr_assert_eq(limit_table_keys(table, "everyone"), 0);
    limit_table_free(table);
}

Test(store_memory_admit, the_table_is_bounded_whatever_keys_come)
{
    struct limit_table *table = limit_table_new(1600);
    struct limit_work work[1];
    struct limit_state state;

    for (int i = 0; i < 20000; i++) {
        struct limit_charge charge = charge_of(&per_client, 0, 1);
        struct admit_tuple tuple = {&charge, 1, 1};
        uint64_t spread = (uint64_t)i * 0x9e3779b97f4a7c15u;

        memcpy(charge.principal, &spread, sizeof(spread));
        cr_assert_eq(limit_table_decide(table, &tuple, 0, i, work, &state), 1);
        cr_assert_leq(limit_table_count(table), 1600);
    }
    cr_assert_gt(limit_table_count(table), 1500);
    limit_table_free(table);
}
