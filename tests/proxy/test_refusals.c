/* Refusals: what is remembered is told as it would be told by the store, and never for longer than is certain. */
#include "refusals.h"
#include "settings.h"
#include "verdict.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MS = 1000, S = 1000000 };

static struct limit_rule client = {.name = (char[]){"client"}}, everyone = {.name = (char[]){"everyone"}};

static struct limit_charge charge_of(const struct limit_rule *rule, unsigned char principal, int64_t cost)
{
    struct limit_charge charge = {.rule = rule, .terms = &rule->terms, .cost = cost};

    charge.principal[0] = principal;
    return charge;
}

static bool is_recalled(const struct refusals *refusals, const struct limit_charge *charges, size_t count,
                        int64_t now_us)
{
    bool counts[16];
    struct limit_state states[16];

    return refusals_recall(refusals, charges, count, counts, states, now_us);
}

Test(refusals, only_the_same_charges_are_refused)
{
    struct refusals *refusals = refusals_new();
    struct limit_charge charge = charge_of(&client, 1, 2),
                        others[] = {charge_of(&everyone, 1, 2), charge_of(&client, 2, 2),
                                    charge_of(&client, 1, 1), charge_of(&client, 1, 3),
                                    charge_of(&client, 1, 2)};
    struct limit_terms of_another_plan = {.limit = 7};
    struct limit_state state = {.available = 1, .reset_us = 9 * S, .retry_after_us = 5 * S};

    others[4].terms = &of_another_plan;
    cr_assert_not(is_recalled(refusals, &charge, 1, 0));
    refusals_note(refusals, &charge, (bool[]){true}, &state, 1, 0, 0);
    cr_assert(is_recalled(refusals, &charge, 1, 0));
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        cr_assert_not(is_recalled(refusals, &others[i], 1, 0), "%zu", i);
    cr_assert_not(is_recalled(refusals, (struct limit_charge[]){charge, others[0]}, 2, 0));
    cr_assert_not(is_recalled(refusals, NULL, 0, 0));
    refusals_forget(refusals);
    cr_assert_not(is_recalled(refusals, &charge, 1, 0));
    refusals_free(refusals);
}

Test(refusals, it_stands_for_as_long_as_is_certain_since_the_store_was_asked)
{
    static const struct {
        const char *why;
        int64_t retry_us, until_us;
    } rows[] = {
        {"a thousandth less than the wait", 50 * MS, 50 * MS - 50},
        {"rounded to the safe side", 1500, 1498},
        {"a tick is not worth it", 1, 0},
        {"never longer than this", 5 * S, VERDICT_CERTAIN_MOST_US},
    };
    struct limit_charge charge = charge_of(&client, 1, 1);

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct refusals *refusals = refusals_new();
        struct limit_state state = {.retry_after_us = rows[i].retry_us, .reset_us = S};

        refusals_note(refusals, &charge, (bool[]){true}, &state, 1, 10 * S, 10 * S);
        if (rows[i].until_us > 0)
            cr_expect(is_recalled(refusals, &charge, 1, 10 * S + rows[i].until_us - 1), "%s", rows[i].why);
        cr_expect_not(is_recalled(refusals, &charge, 1, 10 * S + rows[i].until_us), "%s", rows[i].why);
        refusals_free(refusals);
    }
}

/* The store decided at some moment between. */
Test(refusals, certainty_counts_from_the_question_and_waits_from_the_answer)
{
    struct refusals *refusals = refusals_new();
    struct limit_charge charge = charge_of(&client, 1, 1);
    struct limit_state state = {.retry_after_us = 40 * MS, .reset_us = 60 * MS}, told;
    bool counts;

    refusals_note(refusals, &charge, (bool[]){true}, &state, 1, S, S + 30 * MS);
    cr_assert(refusals_recall(refusals, &charge, 1, &counts, &told, S + 35 * MS));
    cr_assert(counts);
    cr_assert_eq(told.retry_after_us, 35 * MS);
    cr_assert_eq(told.reset_us, 55 * MS);
    cr_assert_not(is_recalled(refusals, &charge, 1, S + 40 * MS));
    refusals_free(refusals);
}

Test(refusals, of_several_limits_each_is_told_as_it_stands)
{
    struct refusals *refusals = refusals_new();
    struct limit_charge charges[] = {charge_of(&everyone, 0, 1), charge_of(&client, 1, 1),
                                     charge_of(&client, 2, 1), charge_of(&everyone, 3, 1)};
    struct limit_state states[4] = {{.available = 7, .reset_us = S},
                                    {.retry_after_us = 30 * MS, .reset_us = 30 * MS},
                                    {.retry_after_us = 80 * MS, .reset_us = 80 * MS},
                                    {.available = 99}},
                       told[4];
    bool counts[4];

    refusals_note(refusals, charges, (bool[]){true, true, true, false}, states, 4, S, S);
    cr_assert(refusals_recall(refusals, charges, 4, counts, told, S + 50 * MS));
    cr_assert(counts[0] && counts[1] && counts[2] && !counts[3]);
    cr_assert_eq(told[0].available, 7);
    cr_assert_eq(told[0].retry_after_us, 0);
    cr_assert_eq(told[1].retry_after_us, 0, "it would let one pass by now");
    cr_assert_eq(told[2].retry_after_us, 30 * MS);
    cr_assert_not(is_recalled(refusals, charges, 4, S + 80 * MS));
    refusals_free(refusals);
}

Test(refusals, what_is_never_certain_is_not_remembered)
{
    struct refusals *refusals = refusals_new();
    struct limit_charge charges[5];
    struct limit_state states[5] = {{.retry_after_us = S},
                                    {.retry_after_us = S},
                                    {.retry_after_us = S},
                                    {.retry_after_us = S},
                                    {.retry_after_us = S}};
    bool counts[5] = {true, true, true, true, true};

    for (unsigned char i = 0; i < 5; i++)
        charges[i] = charge_of(&client, i, 1);
    refusals_note(refusals, charges, counts, states, 5, 0, 0);
    cr_assert_not(is_recalled(refusals, charges, 5, 0), "more limits than there is room for");
    states[1].never = true;
    refusals_note(refusals, charges, counts, states, 2, 0, 0);
    cr_assert_not(is_recalled(refusals, charges, 2, 0), "no waiting helps, so nothing is certain to end");
    refusals_free(refusals);
}

Test(refusals, any_number_of_callers_costs_the_same_memory_and_none_is_taken_for_another)
{
    struct refusals *refusals = refusals_new();
    struct limit_state state = {.retry_after_us = S};
    size_t recalled = 0;

    for (uint32_t i = 0; i < 10000; i++) {
        struct limit_charge charge = {.rule = &client, .terms = &client.terms, .cost = 1};

        memcpy(charge.principal, &i, sizeof(i));
        cr_assert_not(is_recalled(refusals, &charge, 1, 0), "%u was never refused", i);
        refusals_note(refusals, &charge, (bool[]){true}, &state, 1, 0, 0);
        recalled += is_recalled(refusals, &charge, 1, 0);
    }
    cr_assert_eq(recalled, 10000);
    refusals_free(refusals);
}
