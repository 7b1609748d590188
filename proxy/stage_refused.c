/* Refused: a limit did not let a request pass; what does it get? What `when_refused` of those says that refused it: the stored copy, where
 * there is one that may be given; its turn, later; or else the refusal. */
#include "exchange.h"

static enum when_refused resort_of(const struct limit_request *by)
{
    struct limit_standing standings[LIMITS_PER_REQUEST];
    enum when_refused whens[LIMITS_PER_REQUEST];
    size_t count = 0;

    if (by->ruling !=
        RULING_REFUSED) /* that it costs too much, or cannot be decided, is for no copy to hide */
        return REFUSE;
    for (size_t i = 0; i < by->charge_count; i++) {
        if (!by->has_state[i])
            continue;
        whens[count] = by->charges[i].rule->when_refused;
        standings[count++] = limit_request_standing(by, i);
    }
    return verdict_resort(standings, whens, count);
}

/* ---- the stored copy ---- */

static void on_copy(struct exchange *exchange, struct object *copy)
{
    const struct limit_request *by = exchange->refusal;

    if (copy == NULL || !may_stand_in(exchange, copy)) {
        object_release(&copy);
        refuse_by_limit(exchange, by);
        return;
    }
    if (by->is_tentative)
        limiter_count_refusal(by);
    site_count_limit(exchange->site, by->named, LIMIT_GAVE_STORED);
    exchange->refusing_limit = by->named->name;
    exchange->cache_detail = "limit-refused";
    deliver_copy(exchange, copy);
}

void stage_refused(struct exchange *exchange, struct limit_request *by)
{
    exchange->refusal = by;
    exchange->has_result = false;
    switch (resort_of(by)) {
    case GIVE_STORED:
        wait_no_longer(exchange);
        look_for_copy(exchange, on_copy);
        return;
    case WAIT_FOR_IT:
        if (stage_wait(exchange, by))
            return;
        break;
    case REFUSE: break;
    }
    wait_no_longer(exchange);
    refuse_by_limit(exchange, by);
}
