/* Cost: how many units does this request take? What it says itself is believed only within what the limit
 * allows.
 *
 * A cost is a whole number from 1 to the rule's max, in digits and nothing else. A request that does not say
 * takes the limit's default; one that says anything else is refused, for every guess at what it means could
 * be to its advantage.
 */
#ifndef WEIR_COST_H
#define WEIR_COST_H

#include "limit_key.h"
#include "text.h"

enum cost_source { COST_FIXED, COST_OF_HEADER, COST_OF_QUERY, COST_OF_JSON, COST_OF_RESPONSE };

struct cost_rule {
    enum cost_source source;
    struct slice
        name; /* of the header (in lower case) or parameter; the pointer (RFC 6901) into a JSON body */
    int64_t max;
    int64_t reserve,
        unstated; /* with COST_OF_RESPONSE: what is held, and what an answer that does not say costs */
    size_t max_body_bytes; /* larger ones are not read */
};

enum cost_reading {
    COST_STATED,
    COST_UNSTATED,
    COST_NOT_ALLOWED, /* zero, negative, above max, no whole number, two of them */
};

/* From a header or a parameter. */
enum cost_reading cost_of_text(const struct cost_rule *rule, const struct limit_key_facts *facts,
                               int64_t *cost);
enum cost_reading cost_of_number(const struct cost_rule *rule, int64_t number, int64_t *cost);

/* With COST_OF_RESPONSE: what an answer with these fields (names in lower case) costs, 0 or more. One that does not say costs
 * rule->unstated; one that says anything but a whole number, or two of them, `reserved`: what its request was good for. What is
 * above the rule's max counts as that: the work is done. */
int64_t cost_of_answer(const struct cost_rule *rule, int64_t reserved, const struct header *headers,
                       size_t count);

enum cost_problem {
    COST_PROBLEM_VALUE,
    COST_PROBLEM_BODY /* no JSON that can be relied on */,
    COST_PROBLEM_SIZE
};

/* Why a request was refused, in words that the name of the limit is to follow. */
enum { COST_WORDS_ROOM = 400 };
void cost_words(const struct cost_rule *rule, enum cost_problem problem, struct text *out);

#endif
