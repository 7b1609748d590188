/* Cost: what a request says of itself is a number within bounds, or it is refused. */
#include "cost.h"

#include <criterion/criterion.h>

Test(cost, digits_from_1_to_max_and_nothing_else)
{
    static const struct {
        const char *why, *text;
        enum cost_reading want;
        int64_t cost;
    } rows[] = {
        {"the least", "1", COST_STATED, 1},
        {"the most", "50", COST_STATED, 50},
        {"leading zeros are the same number", "007", COST_STATED, 7},
        {"above max", "51", COST_NOT_ALLOWED, 0},
        {"zero", "0", COST_NOT_ALLOWED, 0},
        {"zeros", "000", COST_NOT_ALLOWED, 0},
        {"negative", "-1", COST_NOT_ALLOWED, 0},
        {"with a sign", "+1", COST_NOT_ALLOWED, 0},
        {"a fraction", "1.5", COST_NOT_ALLOWED, 0},
        {"a whole fraction", "1.0", COST_NOT_ALLOWED, 0},
        {"an exponent", "1e1", COST_NOT_ALLOWED, 0},
        {"hexadecimal", "0x1", COST_NOT_ALLOWED, 0},
        {"blanks within", "1 0", COST_NOT_ALLOWED, 0},
        {"a word", "many", COST_NOT_ALLOWED, 0},
        {"beyond 64 bits, which must not wrap", "18446744073709551617", COST_NOT_ALLOWED, 0},
        {"longer than any number",
         "00000000000000000000000000000000000000000000000000000000000000000000000000000000001",
         COST_NOT_ALLOWED, 0},
        {"empty is absent", "", COST_UNSTATED, 0},
    };
    struct cost_rule rule = {.source = COST_OF_HEADER, .name = SLICE("x-cost"), .max = 50};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct header header = {SLICE("x-cost"), slice_text(rows[i].text)};
        struct limit_key_facts facts = {.headers = &header, .header_count = 1};
        int64_t cost = 0;

        cr_expect_eq(cost_of_text(&rule, &facts, &cost), rows[i].want, "%s", rows[i].why);
        cr_expect_eq(cost, rows[i].cost, "%s", rows[i].why);
    }
}

Test(cost, it_is_one_number)
{
    struct header headers[] = {{SLICE("x-cost"), SLICE("1")}, {SLICE("x-cost"), SLICE("2")}};
    struct limit_key_facts facts = {.headers = headers, .header_count = 2, .query = SLICE("u=1&u=2")};
    struct cost_rule rule = {.source = COST_OF_HEADER, .name = SLICE("x-cost"), .max = 50};
    int64_t cost;

    cr_expect_eq(cost_of_text(&rule, &facts, &cost), COST_NOT_ALLOWED);
    rule = (struct cost_rule){.source = COST_OF_QUERY, .name = SLICE("u"), .max = 50};
    cr_expect_eq(cost_of_text(&rule, &facts, &cost), COST_NOT_ALLOWED);
    facts.query = SLICE("u=%35&v=2&u=5");
    cr_expect_eq(cost_of_text(&rule, &facts, &cost), COST_STATED);
    cr_expect_eq(cost, 5);
    facts.query = SLICE("v=2");
    cr_expect_eq(cost_of_text(&rule, &facts, &cost), COST_UNSTATED);
}

Test(cost, numbers_have_the_same_bounds)
{
    struct cost_rule rule = {.source = COST_OF_JSON, .name = SLICE("/n"), .max = 3};
    int64_t cost = 0;

    cr_expect_eq(cost_of_number(&rule, INT64_MIN, &cost), COST_NOT_ALLOWED);
    cr_expect_eq(cost_of_number(&rule, 0, &cost), COST_NOT_ALLOWED);
    cr_expect_eq(cost_of_number(&rule, 4, &cost), COST_NOT_ALLOWED);
    cr_expect_eq(cost_of_number(&rule, INT64_MAX, &cost), COST_NOT_ALLOWED);
    cr_expect_eq(cost, 0);
    cr_expect_eq(cost_of_number(&rule, 3, &cost), COST_STATED);
    cr_expect_eq(cost, 3);
}

static void expect_words(const struct cost_rule *rule, enum cost_problem problem, const char *want)
{
    char room[COST_WORDS_ROOM];
    struct text text = text_in(room, sizeof(room));

    cost_words(rule, problem, &text);
    cr_expect(slice_eq(text_slice(&text), slice_text(want)), "%.*s", (int)text.len, room);
}

Test(cost, the_words_tell_what_to_change)
{
    struct cost_rule header = {.source = COST_OF_HEADER, .name = SLICE("x-cost"), .max = 50},
                     query = {.source = COST_OF_QUERY, .name = SLICE("units"), .max = 5},
                     json = {
                         .source = COST_OF_JSON, .name = SLICE("/ids"), .max = 100, .max_body_bytes = 65536};

    expect_words(&header, COST_PROBLEM_VALUE,
                 "The cost in the header x-cost must be a whole number from 1 to 50, for the limit ");
    expect_words(&query, COST_PROBLEM_VALUE,
                 "The cost in the parameter units must be a whole number from 1 to 5, for the limit ");
    expect_words(
        &json, COST_PROBLEM_VALUE,
        "The cost in the body at \"/ids\" must be a whole number from 1 to 100 or an array of so many items, "
        "for the limit ");
    expect_words(
        &json, COST_PROBLEM_BODY,
        "The body must be JSON of at most 32 levels and 16384 objects and arrays, in which no object has a "
        "name twice, for the limit ");
    expect_words(&json, COST_PROBLEM_SIZE,
                 "The body is larger than the 65536 bytes in which a cost is looked for, for the limit ");
}

Test(cost, the_longest_words_fit)
{
    char name[128], room[COST_WORDS_ROOM];
    struct cost_rule rule = {.name = {name, sizeof(name)}, .max = INT64_MAX, .max_body_bytes = SIZE_MAX >> 1};

    memset(name, 'n', sizeof(name));
    for (enum cost_source source = COST_OF_HEADER; source <= COST_OF_JSON; source++)
        for (enum cost_problem problem = COST_PROBLEM_VALUE; problem <= COST_PROBLEM_SIZE; problem++) {
            struct text text = text_in(room, sizeof(room));

            rule.source = source;
            cost_words(&rule, problem, &text);
            cr_expect(text_fits(&text));
        }
}

Test(cost, an_answer_says_it_in_digits_or_costs_what_its_request_was_good_for)
{
    static const struct {
        const char *why, *first, *second; /* NULL: no such field */
        int64_t want;
    } rows[] = {
        {"a number", "7", NULL, 7},
        {"nothing", "0", NULL, 0},
        {"leading zeros", "0010", NULL, 10},
        {"more than was reserved", "49", NULL, 49},
        {"the most", "50", NULL, 50},
        {"above the most", "51", NULL, 50},
        {"far above", "18446744073709551617", NULL, 50},
        {"absent", NULL, NULL, 3},
        {"empty", "", NULL, 3},
        {"empty beside a number", "", "8", 8},
        {"twice the same", "8", "8", 8},
        {"two numbers", "8", "9", 20},
        {"a list", "8, 9", NULL, 20},
        {"negative", "-1", NULL, 20},
        {"a sign", "+1", NULL, 20},
        {"a fraction", "1.0", NULL, 20},
        {"an exponent", "1e1", NULL, 20},
        {"a word", "free", NULL, 20},
        {"blanks within", "1 0", NULL, 20},
        {"a parameter", "1;unit=token", NULL, 20},
        {"longer than any number",
         "00000000000000000000000000000000000000000000000000000000000000000000000001", NULL, 20},
    };
    struct cost_rule rule = {
        .source = COST_OF_RESPONSE, .name = SLICE("x-cost"), .max = 50, .reserve = 20, .unstated = 3};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct header headers[3] = {{SLICE("x-other"), SLICE("1")}};
        size_t count = 1;

        if (rows[i].first != NULL)
            headers[count++] = (struct header){SLICE("x-cost"), slice_text(rows[i].first)};
        if (rows[i].second != NULL)
            headers[count++] = (struct header){SLICE("x-cost"), slice_text(rows[i].second)};
        cr_expect_eq(cost_of_answer(&rule, 20, headers, count), rows[i].want, "%s", rows[i].why);
    }
}
