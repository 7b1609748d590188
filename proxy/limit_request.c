/* Limit request: see limit_request.h. */
#include "limit_request.h"
#include "check.h"

#include <string.h>

bool limit_charge_is_shadow(const struct limit_charge *charge)
{
    return charge->rule->mode == LIMIT_IN_SHADOW;
}

bool limit_request_enforces(const struct limit_request *request)
{
    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i] && !limit_charge_is_shadow(&request->charges[i]))
            return true;
    return false;
}

struct limit_standing limit_request_standing(const struct limit_request *request, size_t i)
{
    const struct limit_state *state = &request->states[i];

    return (struct limit_standing){limit_capacity(request->charges[i].terms), state->available,
                                   state->retry_after_us, state->never, state->is_unforeseen};
}

int64_t limit_request_wait_us(const struct limit_request *request)
{
    struct limit_standing standings[LIMITS_PER_REQUEST];
    size_t count = 0;

    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i])
            standings[count++] = limit_request_standing(request, i);
    return verdict_reach(standings, count).retry_after_us;
}

void limit_request_copy_ruling(struct limit_request *to, const struct limit_request *from)
{
    to->ruling = from->ruling;
    to->named = from->named;
    memcpy(to->has_state, from->has_state, sizeof(to->has_state));
    memcpy(to->states, from->states, sizeof(to->states));
    to->is_degraded = from->is_degraded;
    to->is_recalled = from->is_recalled;
    to->epoch_is_known = from->epoch_is_known;
}

/* ---- an answer ---- */

/* Which limit refused, by the one rule for that (policies/verdict). */
void limit_request_name_refusing(struct limit_request *request)
{
    struct limit_standing standings[LIMITS_PER_REQUEST];
    size_t places[LIMITS_PER_REQUEST];
    size_t count = 0;
    struct verdict verdict;

    for (size_t i = 0; i < request->charge_count; i++) {
        if (!request->has_state[i])
            continue;
        places[count] = i;
        standings[count++] = limit_request_standing(request, i);
    }
    CHECK(count > 0); /* a request without limits is never refused by one */
    verdict = verdict_reach(standings, count);
    request->ruling = verdict.never ? RULING_TOO_COSTLY : RULING_REFUSED;
    request->named = request->charges[places[verdict.refused_by]].rule;
}

static void count_outcomes(const struct limit_request *request, bool is_fallback)
{
    for (size_t i = 0; i < request->charge_count; i++) {
        enum limit_outcome outcome = LIMIT_ADMITTED;

        if (!request->has_state[i])
            continue; /* counted when it was passed over */
        if (request->ruling == RULING_TOO_COSTLY && request->charges[i].rule == request->named)
            outcome = LIMIT_TOO_COSTLY;
        else if (request->ruling == RULING_REFUSED &&
                 (request->states[i].is_unforeseen || request->states[i].retry_after_us > 0))
            outcome = LIMIT_REFUSED;
        else if (request->ruling != RULING_ADMITTED)
            continue; /* it would have allowed it, and charged nothing: not a decision of this limit */
        site_count_limit(request->site, request->charges[i].rule, outcome);
        if (is_fallback)
            site_count_limit(request->site, request->charges[i].rule, LIMIT_DECIDED_LOCALLY);
    }
}

/* Counts what the limits in shadow say, which nobody is told. They were decided for what passed alone. */
static void count_shadows(struct limit_request *request, const struct admit_answer *answer, bool is_admitted,
                          bool is_fallback)
{
    for (size_t i = 0; i < request->charge_count; i++) {
        const struct limit_rule *rule = request->charges[i].rule;

        if (!request->has_state[i] || !limit_charge_is_shadow(&request->charges[i]))
            continue;
        request->has_state[i] = false;
        if (is_admitted)
            site_count_limit(request->site, rule,
                             request->place < answer->admitted ? LIMIT_ADMITTED : LIMIT_SHADOW_REFUSED);
        if (is_admitted && is_fallback)
            site_count_limit(request->site, rule, LIMIT_DECIDED_LOCALLY);
        answer++;
    }
}

void limit_request_count_refusal(const struct limit_request *request, bool is_fallback)
{
    count_outcomes(request, is_fallback);
    if (request->is_recalled)
        site_count_limit(request->site, request->named, LIMIT_FAST_DENIED);
}

/* Before anybody is told: which of what the request asked to hold is it to keep? */
static void keep_holdings(struct limit_request *request, const struct admit_answer *answer)
{
    bool is_admitted = !limit_request_enforces(request) || request->place < answer->admitted;
    const struct admit_answer *shadow = answer + 1;

    for (size_t i = 0; i < request->charge_count; i++) {
        bool is_taken = is_admitted;

        if (!request->has_state[i])
            continue;
        if (limit_charge_is_shadow(&request->charges[i]))
            is_taken &= request->place < shadow++->admitted;
        if (request->holds[i] != NULL)
            holding_answered(&request->holds[i], is_taken);
    }
}

/* `answer` is of the tuples that tuples_new() made of the request. */
void limit_request_take_answer(struct limit_request *request, const struct admit_answer *answer,
                               bool is_fallback)
{
    /* With nothing to enforce there was only the epoch to be told, whatever the answer counts. */
    bool is_admitted = !limit_request_enforces(request) || request->place < answer->admitted;
    size_t from = 0;

    keep_holdings(request, answer);
    count_shadows(request, answer + 1, is_admitted, is_fallback);
    for (size_t i = 0; i < request->charge_count; i++) {
        if (!request->has_state[i])
            continue;
        request->states[i] = answer->states[from++];
        if (is_admitted) { /* what was left right after this one, of those that were decided together */
            request->states[i].available +=
                (answer->admitted - request->place - 1) * request->charges[i].cost;
            request->states[i].retry_after_us = 0;
            request->states[i].is_unforeseen = false;
        }
    }
    request->ruling = RULING_ADMITTED;
    if (!is_admitted)
        limit_request_name_refusing(request);
    if (is_admitted || !request->is_tentative)
        count_outcomes(request, is_fallback);
}

/* ---- no answer ---- */

/* What a limit that is not asked without the store does. */
static void count_unasked(struct limit_request *request, const struct limit_charge *charge)
{
    bool is_open = charge->rule->on_store_failure == FAILURE_OPEN;

    site_count_limit(request->site, charge->rule, is_open ? LIMIT_PASSED_OPEN : LIMIT_SHADOW_REFUSED);
    if (!limit_charge_is_shadow(charge))
        site_count_degraded(request->site, DEGRADED_LIMIT_OPEN);
}

/* Without the store: true when the request is decided by that, false when its local limits are still to be
 * asked. */
bool limit_request_rule_without_store(struct limit_request *request)
{
    bool asks_locally = false, is_held_locally;

    request->is_degraded = true;
    request->epoch_is_known = false;
    request->ruling = RULING_ADMITTED;
    for (size_t i = 0; i < request->charge_count; i++) {
        const struct limit_charge *charge = &request->charges[i];

        request->has_state[i] = charge->rule->on_store_failure == FAILURE_LOCAL;
        if (charge->rule->on_store_failure == FAILURE_CLOSED && !limit_charge_is_shadow(charge) &&
            request->ruling == RULING_ADMITTED) {
            request->ruling = RULING_UNAVAILABLE;
            request->named = charge->rule;
        }
        asks_locally |= request->has_state[i];
    }
    is_held_locally = limit_request_enforces(request);
    if (request->ruling == RULING_UNAVAILABLE) {
        memset(request->has_state, 0, sizeof(request->has_state));
        site_count_limit(request->site, request->named, LIMIT_UNAVAILABLE);
        site_count_degraded(request->site, DEGRADED_LIMIT_CLOSED);
        return true;
    }
    for (size_t i = 0; i < request->charge_count; i++)
        if (!request->has_state[i])
            count_unasked(request, &request->charges[i]);
    if (is_held_locally)
        site_count_degraded(request->site, DEGRADED_LIMIT_LOCAL);
    return !asks_locally;
}
