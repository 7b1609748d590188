/* Cost: see cost.h. */
#include "cost.h"

#include "check.h"
#include "json_scan.h"

enum { DIGITS_ROOM = 64 }; /* with leading zeros, which nobody needs */

enum cost_reading cost_of_number(const struct cost_rule *rule, int64_t number, int64_t *cost)
{
    if (number < 1 || number > rule->max)
        return COST_NOT_ALLOWED;
    *cost = number;
    return COST_STATED;
}

enum cost_reading cost_of_text(const struct cost_rule *rule, const struct limit_key_facts *facts,
                               int64_t *cost)
{
    struct limit_key key = {
        .parts = {{rule->source == COST_OF_HEADER ? LIMIT_KEY_HEADER : LIMIT_KEY_QUERY, rule->name}},
        .part_count = 1,
    };
    char digits[DIGITS_ROOM];
    size_t len = limit_key_write(&key, facts, 0, digits, sizeof(digits));
    int64_t number;

    CHECK(rule->source == COST_OF_HEADER || rule->source == COST_OF_QUERY);
    if (len == LIMIT_KEY_AMBIGUOUS)
        return COST_NOT_ALLOWED;
    if (len == LIMIT_KEY_ABSENT)
        return COST_UNSTATED;
    if (len > sizeof(digits) || !text_parse_digits(slice_of(digits, len), INT64_MAX, &number))
        return COST_NOT_ALLOWED;
    return cost_of_number(rule, number, cost);
}

int64_t cost_of_answer(const struct cost_rule *rule, int64_t reserved, const struct header *headers,
                       size_t count)
{
    struct slice said = slice_of(NULL, 0);
    int64_t number;

    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(headers[i].name, rule->name) || headers[i].value.len == 0)
            continue;
        if (said.len > 0 && !slice_eq(said, headers[i].value))
            return reserved;
        said = headers[i].value;
    }
    if (said.len == 0)
        return rule->unstated;
    if (said.len > DIGITS_ROOM || !text_parse_digits(said, INT64_MAX, &number))
        return reserved;
    return number < rule->max ? number : rule->max;
}

static void add_range(struct text *out, const struct cost_rule *rule)
{
    text_add(out, SLICE(" must be a whole number from 1 to "));
    text_add_int(out, rule->max);
}

static void add_value_words(const struct cost_rule *rule, struct text *out)
{
    switch (rule->source) {
    case COST_OF_HEADER:
    case COST_OF_QUERY:
        text_add(out, rule->source == COST_OF_HEADER ? SLICE("The cost in the header ")
                                                     : SLICE("The cost in the parameter "));
        text_add(out, rule->name);
        add_range(out, rule);
        break;
    case COST_OF_JSON:
        text_add(out, SLICE("The cost in the body at \""));
        text_add(out, rule->name);
        text_add_char(out, '"');
        add_range(out, rule);
        text_add(out, SLICE(" or an array of so many items"));
        break;
    case COST_OF_RESPONSE:
    case COST_FIXED: CHECK(!"what the request does not say is never misread");
    }
}

void cost_words(const struct cost_rule *rule, enum cost_problem problem, struct text *out)
{
    switch (problem) {
    case COST_PROBLEM_VALUE: add_value_words(rule, out); break;
    case COST_PROBLEM_BODY:
        text_add(out, SLICE("The body must be JSON of at most "));
        text_add_int(out, JSON_MAX_DEPTH);
        text_add(out, SLICE(" levels and "));
        text_add_int(out, JSON_MAX_CONTAINERS);
        text_add(out, SLICE(" objects and arrays, in which no object has a name twice"));
        break;
    case COST_PROBLEM_SIZE:
        text_add(out, SLICE("The body is larger than the "));
        text_add_int(out, (int64_t)rule->max_body_bytes);
        text_add(out, SLICE(" bytes in which a cost is looked for"));
        break;
    }
    text_add(out, SLICE(", for the limit "));
}
