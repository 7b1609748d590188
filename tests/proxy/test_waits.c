/* Waits: the line moves in order of arrival, asks no more than it must, forgets nobody and holds nobody for too long. */
#include "waits.h"
#include "settings.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(waits, .timeout = 20);

static struct loop *loop;
static struct waits *waits;
static struct limit_rule patient = {.name = "patient", .when_refused = WAIT_FOR_IT, .max_wait_ms = 60000},
                         hurried = {.name = "hurried", .when_refused = WAIT_FOR_IT, .max_wait_ms = 30};

struct person {
    struct waiter waiter;
    struct limit_charge charge;
    int turns;
    int turn_order; /* of its last turn, among all */
};

enum { CROWD = WAITERS_PER_LINE + 2 };

static struct person crowd[CROWD];
static int turns;

static void on_turn(void *arg)
{
    struct person *person = arg;

    person->turns++;
    person->turn_order = ++turns;
}

static void start(void)
{
    loop = loop_new();
    waits = waits_new(loop);
    turns = 0;
    memset(crowd, 0, sizeof(crowd));
}

static void stop(void)
{
    waits_free(waits);
    loop_free(loop);
}

static struct person *person(size_t which, struct limit_rule *rule, char principal)
{
    struct person *one = &crowd[which];

    one->charge = (struct limit_charge){.rule = rule, .cost = 1};
    memset(one->charge.principal, principal, sizeof(one->charge.principal));
    one->waiter.turn = on_turn;
    one->waiter.arg = one;
    return one;
}

static bool stay(struct person *one, int64_t retry_after_us)
{
    int before = one->turns;
    bool stays = waits_stay(waits, &one->waiter, &one->charge, retry_after_us);

    cr_assert_eq(one->turns, before, "never inside");
    return stays;
}

static bool join(struct person *one)
{
    return waits_join(waits, &one->waiter, &one->charge);
}

static void leave(struct person *one)
{
    waits_leave(waits, &one->waiter);
}

static void until_turn_of(struct person *one, int nth)
{
    while (one->turns < nth)
        loop_turn(loop, 1000);
}

/* All that is due by now. */
static void let_pass(void)
{
    for (int i = 0; i < 3; i++)
        loop_turn(loop, 0);
}

Test(waits, only_the_first_in_line_is_tried_and_the_next_once_it_has_passed)
{
    start();
    struct person *a = person(0, &patient, 'k'), *b = person(1, &patient, 'k'), *c = person(2, &patient, 'k');

    cr_assert_null(waits_find_line(waits, &a->charge, 1));
    cr_assert_not(join(a), "there is no line yet: ask");
    cr_assert(stay(a, 5000));
    cr_assert_eq(waits_find_line(waits, &b->charge, 1), &b->charge);
    cr_assert(join(b));
    cr_assert(join(c));
    until_turn_of(a, 1);
    let_pass();
    cr_assert(b->turns == 0 && c->turns == 0);
    leave(a);
    let_pass();
    cr_assert_eq(b->turns, 1, "what let one pass may let another one pass");
    cr_assert_eq(c->turns, 1, "and two, where one passed");
    cr_assert_lt(b->turn_order, c->turn_order);
    leave(b), leave(c);
    cr_assert_null(waits_find_line(waits, &a->charge, 1), "nobody waits, there is no line");
    stop();
}

Test(waits, who_is_refused_again_keeps_his_place_and_the_others_wait_for_his_moment)
{
    start();
    struct person *a = person(0, &patient, 'k'), *b = person(1, &patient, 'k');

    stay(a, 1000);
    join(b);
    until_turn_of(a, 1);
    cr_assert(stay(a, 2000));
    until_turn_of(a, 2);
    cr_assert_eq(b->turns, 0);
    leave(a);
    until_turn_of(b, 1);
    leave(b);
    stop();
}

Test(waits, who_leaves_before_his_turn_leaves_his_moment_to_the_next)
{
    start();
    struct person *a = person(0, &patient, 'k'), *b = person(1, &patient, 'k');

    stay(a, 20000);
    join(b);
    leave(a);
    until_turn_of(b, 1);
    cr_assert_eq(a->turns, 0);
    leave(b);
    leave(b);
    stop();
}

Test(waits, who_is_gone_at_his_turn_does_not_stop_the_line)
{
    start();
    struct person *a = person(0, &patient, 'k'), *b = person(1, &patient, 'k');

    stay(a, 1000);
    join(b);
    until_turn_of(a, 1);
    leave(a);
    until_turn_of(b, 1);
    leave(b);
    stop();
}

Test(waits, who_takes_long_to_say_holds_up_nobody_and_keeps_his_place)
{
    start();
    struct person *a = person(0, &patient, 'k'), *b = person(1, &patient, 'k'), *c = person(2, &patient, 'k');

    stay(a, 1000);
    join(b), join(c);
    until_turn_of(a, 1);
    until_turn_of(b, 1); /* though a has said nothing */
    cr_assert(stay(b, 30000000));
    let_pass();
    cr_assert_eq(c->turns, 0);
    cr_assert(stay(a, 1000), "refused, late");
    cr_assert_eq(a->turns, 1);
    waits_nudge(waits, &a->charge);
    until_turn_of(a, 2);
    cr_assert_eq(b->turns, 1, "a stands before b");
    leave(a), leave(b), leave(c);
    stop();
}

Test(waits, nobody_is_held_for_longer_than_may_be)
{
    start();
    struct person *a = person(0, &hurried, 'k'), *b = person(1, &hurried, 'k');

    cr_assert_not(stay(a, 31000), "he would wait in vain");
    cr_assert_eq(a->waiter.arrival, 0);
    cr_assert(stay(a, 29000));
    cr_assert(join(b));
    until_turn_of(a, 1);
    cr_assert_not(stay(a, 29000));
    until_turn_of(b, 1);
    cr_assert_not(stay(b, 29000));
    cr_assert_null(waits_find_line(waits, &a->charge, 1));
    stop();
}

Test(waits, one_who_was_never_asked_has_a_turn_when_his_time_is_over)
{
    start();
    struct limit_rule *rule = &hurried;
    struct person *a = person(0, rule, 'k'), *b = person(1, rule, 'k');

    stay(a, 29000);
    join(b);
    until_turn_of(a, 1); /* and says nothing */
    until_turn_of(b, 1);
    cr_assert_not(stay(b, 0), "without a moment to wait for, his time is over all the same");
    leave(a);
    stop();
}

Test(waits, a_line_has_an_end)
{
    start();
    for (size_t i = 0; i < WAITERS_PER_LINE; i++)
        cr_assert(stay(person(i, &patient, 'k'), 30000000));
    cr_assert_not(join(person(CROWD - 2, &patient, 'k')));
    cr_assert_not(stay(&crowd[CROWD - 2], 1000));
    cr_assert(stay(person(CROWD - 1, &patient, 'o'), 1000), "another's line is another line");
    for (size_t i = 0; i < CROWD; i++)
        leave(&crowd[i]);
    stop();
}

Test(waits, what_is_freed_together_is_taken_in_few_rounds_and_in_order)
{
    enum { MANY = 200 };
    int rounds = 0;

    start();
    for (size_t i = 0; i < MANY; i++)
        stay(person(i, &patient, 'k'), 1000);
    for (size_t passed = 0; passed < MANY; rounds++) {
        size_t before = passed;

        until_turn_of(&crowd[passed], 1);
        while (passed < MANY && crowd[passed].turns > 0) {
            cr_assert_eq(crowd[passed].turn_order, (int)passed + 1);
            passed++;
        }
        for (size_t i = before; i < passed; i++)
            leave(&crowd[i]);
    }
    cr_assert_leq(rounds, 10);
    stop();
}

Test(waits, where_no_moment_is_known_the_line_is_tried_at_times_and_when_something_is_given_back)
{
    start();
    struct person *a = person(0, &patient, 'k'), *other = person(1, &patient, 'o');

    stay(a, 0);
    let_pass();
    cr_assert_eq(a->turns, 0);
    until_turn_of(a, 1);
    stay(a, 0);
    waits_nudge(waits, &other->charge);
    let_pass();
    cr_assert_eq(a->turns, 1, "nothing of his was given back");
    waits_nudge(waits, &a->charge);
    let_pass();
    cr_assert_eq(a->turns, 2);
    waits_nudge(waits, &a->charge); /* while he asks: too late for that question */
    stay(a, 0);
    let_pass();
    cr_assert_eq(a->turns, 3);
    leave(a);
    stop();
}

Test(waits, what_is_corrected_by_hand_gives_every_line_a_turn)
{
    struct person *one, *behind, *other;

    start();
    one = person(0, &patient, 'a'), behind = person(1, &patient, 'a'), other = person(2, &patient, 'b');
    cr_assert(stay(one, 30000000) && join(behind) && stay(other, 30000000));
    waits_nudge_all(waits);
    loop_turn(loop, 0);
    loop_turn(loop, 0);
    cr_assert(one->turns == 1 && other->turns == 1 && behind->turns == 0);
    cr_assert(stay(one, 30000000), "he is still refused");
    waits_leave(waits, &other->waiter);
    for (int i = 0; i < 1000; i++)
        waits_nudge_all(waits);
    loop_turn(loop, 0);
    cr_assert(one->turns == 1, "many corrections are one, and that a little later");
    until_turn_of(one, 2);
    cr_assert(stay(one, 30000000) && other->turns == 1);
    for (int i = 0; i < 3; i++)
        loop_turn(loop, 60);
    cr_assert_eq(one->turns, 2);
    waits_leave(waits, &one->waiter), waits_leave(waits, &behind->waiter);
    waits_nudge_all(waits);
    stop();
}

Test(waits, who_is_refused_by_another_limit_takes_the_place_in_that_line_which_his_arrival_gives_him)
{
    static struct limit_rule second = {.name = "second", .when_refused = WAIT_FOR_IT, .max_wait_ms = 60000};

    start();
    struct person *a = person(0, &patient, 'k'), *b = person(1, &second, 'k'), *c = person(2, &patient, 'k');
    struct limit_charge by_second = b->charge;

    stay(a, 1000);
    stay(b, 20000);
    join(c);
    until_turn_of(a, 1);
    cr_assert(waits_stay(waits, &a->waiter, &by_second, 20000));
    until_turn_of(c, 1); /* his line goes on */
    waits_nudge(waits, &by_second);
    until_turn_of(a, 2);
    cr_assert_eq(b->turns, 0, "he came before");
    leave(a), leave(b), leave(c);
    stop();
}

Test(waits, at_the_end_all_have_one_more_turn_and_nobody_is_held_any_more)
{
    enum { MANY = 150 };

    start();
    for (size_t i = 0; i < MANY; i++)
        stay(person(i, &patient, (char)('a' + i % 2)), 30000000);
    waits_end(waits);
    for (size_t i = 0; i < MANY; i++) {
        until_turn_of(&crowd[i], 1);
        cr_assert_not(stay(&crowd[i], 1000));
    }
    cr_assert_not(stay(person(MANY, &patient, 'x'), 1000));
    cr_assert_not(join(&crowd[MANY]));
    stop();
}
