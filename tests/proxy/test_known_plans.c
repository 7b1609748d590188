/* Known plans: what counts, what is only remembered, and who makes room for whom. */
#include "known_plans.h"

#include <criterion/criterion.h>

static struct known_plans *plans;

static void start(void)
{
    plans = known_plans_new();
    known_plans_set_told(plans, true);
}

static void stop(void)
{
    known_plans_free(plans);
}

TestSuite(known_plans, .init = start, .fini = stop);

/* Callers of one set where `set` is the same. */
static const unsigned char *caller(unsigned char set, uint32_t number)
{
    static unsigned char rooms[4][PRINCIPAL_BYTES];
    static unsigned next;
    unsigned char *room = rooms[next++ % 4];

    memset(room, 0, PRINCIPAL_BYTES);
    room[0] = set;
    memcpy(room + 8, &number, sizeof(number));
    return room;
}

static void learn(uint32_t number, const char *plan)
{
    struct plan_name name = plan_name_of(slice_text(plan));

    known_plans_learn(plans, caller(0, number), known_plans_mark(plans, caller(0, number)), &name, INT64_MAX);
}

static const char *text_of(bool is_there, const struct plan_name *name)
{
    static char text[PLAN_NAME_MAX_BYTES + 2];

    if (!is_there)
        return "(unknown)";
    memcpy(text, name->text, name->len);
    text[name->len] = '\0';
    return text;
}

static const char *found(uint32_t number)
{
    struct plan_name name;

    return text_of(known_plans_find(plans, caller(0, number), 0, &name), &name);
}

static const char *last(uint32_t number)
{
    struct plan_name name;

    return text_of(known_plans_last(plans, caller(0, number), &name), &name);
}

Test(known_plans, what_was_learnt_is_found_also_that_there_is_no_plan)
{
    cr_assert_str_eq(found(1), "(unknown)");
    cr_assert_str_eq(last(1), "(unknown)");
    learn(1, "pro"), learn(2, "");
    cr_assert_str_eq(found(1), "pro");
    cr_assert_str_eq(found(2), "");
    cr_assert_str_eq(found(3), "(unknown)");
    learn(1, "free");
    cr_assert_str_eq(found(1), "free");
}

Test(known_plans, what_was_changed_or_cannot_be_heard_of_does_not_count_but_is_remembered)
{
    learn(1, "pro"), learn(2, "free");
    known_plans_doubt(plans, caller(0, 1));
    cr_assert_str_eq(found(1), "(unknown)");
    cr_assert_str_eq(last(1), "pro");
    cr_assert_str_eq(found(2), "free", "another's change is none of its");
    learn(1, "pro");
    cr_assert_str_eq(found(1), "pro");
    known_plans_doubt_all(plans);
    cr_assert_str_eq(found(1), "(unknown)");
    cr_assert_str_eq(last(2), "free");
    learn(1, "pro");
    known_plans_set_told(plans, false);
    cr_assert_str_eq(found(1), "(unknown)");
    learn(2, "big");
    cr_assert_str_eq(found(2), "(unknown)");
    cr_assert_str_eq(last(2), "big");
    known_plans_set_told(plans, true);
    cr_assert_str_eq(found(1), "(unknown)", "what changed meanwhile was not heard");
    cr_assert_str_eq(found(2), "(unknown)");
    learn(2, "big");
    cr_assert_str_eq(found(2), "big");
}

Test(known_plans, an_answer_that_is_older_than_a_change_does_not_count)
{
    static const char *const changes[] = {"the caller's", "anybody's", "unheard ones"};
    struct plan_name old = plan_name_of(SLICE("old"));

    for (int i = 0; i < 3; i++) {
        uint64_t mark = known_plans_mark(plans, caller(0, 1));

        if (i == 0)
            known_plans_doubt(plans, caller(0, 1));
        else if (i == 1)
            known_plans_doubt_all(plans);
        else
            known_plans_set_told(plans, false), known_plans_set_told(plans, true);
        known_plans_learn(plans, caller(0, 1), mark, &old, INT64_MAX);
        cr_expect_str_eq(found(1), "(unknown)", "%s", changes[i]);
        cr_expect_str_eq(last(1), "old", "%s", changes[i]);
        learn(1, "new");
        known_plans_learn(plans, caller(0, 1), mark, &old, INT64_MAX);
        cr_expect_str_eq(found(1), "new", "%s: a late old answer takes nothing away", changes[i]);
    }
}

Test(known_plans, a_plan_that_ends_counts_until_then)
{
    struct plan_name name = plan_name_of(SLICE("trial"));

    known_plans_learn(plans, caller(0, 1), known_plans_mark(plans, caller(0, 1)), &name, 1000);
    cr_assert(known_plans_find(plans, caller(0, 1), 999, &name));
    cr_assert_not(known_plans_find(plans, caller(0, 1), 1000, &name));
    cr_assert_str_eq(last(1), "trial");
}

Test(known_plans, invented_callers_push_out_each_other_and_not_those_with_a_plan)
{
    for (uint32_t i = 0; i < 4; i++)
        learn(i, "pro");
    known_plans_doubt(plans, caller(0, 3));
    for (uint32_t i = 100; i < 10100; i++)
        learn(i, "");
    for (uint32_t i = 0; i < 3; i++)
        cr_expect_str_eq(found(i), "pro");
    cr_expect_str_eq(last(3), "pro", "remembered for when the store is away");
    cr_expect_str_eq(found(10099), "");
    for (uint32_t i = 200; i < 220; i++)
        learn(i, "pro");
    cr_expect_str_eq(found(219), "pro", "a new one always finds a place");
}

Test(known_plans, a_name_that_is_too_long_stays_one_that_nobody_has)
{
    char longest[PLAN_NAME_MAX_BYTES + 9];
    struct plan_name fits, cut;

    memset(longest, 'a', sizeof(longest));
    fits = plan_name_of(slice_of(longest, PLAN_NAME_MAX_BYTES));
    cut = plan_name_of(slice_of(longest, sizeof(longest)));
    cr_assert_eq(fits.len, PLAN_NAME_MAX_BYTES);
    cr_assert_not(slice_eq(plan_name_text(&fits), plan_name_text(&cut)));
    cr_assert_eq(plan_name_of(slice_of(NULL, 0)).len, 0);
}
