/* Settle: what did the request cost, where the upstream's answer tells that? A limit hears it once. A request for which the upstream was
 * not asked - a hit, a stale copy, another one's load, a refusal - costs nothing: what it held is given back at its end.
 */
#include "exchange.h"

void stage_settle_head(struct exchange *exchange, const struct header *headers, size_t count)
{
    limiter_settle(&exchange->limits, headers, count);
    if (exchange->bill != NULL)
        limiter_settle(exchange->bill, headers, count);
    let_others_try(exchange);
}

/* The work was asked for, and perhaps done. */
static void settle_unanswered(struct exchange *exchange)
{
    limiter_settle_unanswered(&exchange->limits);
    if (exchange->bill != NULL)
        limiter_settle_unanswered(exchange->bill);
}

/* Of a load it is the one whose plan was loaded that pays, by the answer that it gets, if it gets one. */
void stage_settle_landed(struct exchange *exchange)
{
    struct rider *rider = &exchange->rider;

    if (!rider->has_led)
        return;
    rider->has_led = false;
    switch (rider->outcome) {
    case BOARDING_STREAM:
        stage_settle_head(exchange, rider->stream->headers, rider->stream->header_count);
        return;
    case BOARDING_OBJECT:
        if (rider->result == CACHE_REVALIDATED) /* with the fields of the answer that confirmed it */
            stage_settle_head(exchange, rider->object->headers, rider->object->header_count);
        else
            settle_unanswered(exchange); /* an old copy in place of an error */
        return;
    case BOARDING_FAILED:
        if (rider->fault == FAULT_NONE || fault_leaves_doubt(rider->fault))
            settle_unanswered(exchange);
        return;
    case BOARDING_ALONE: /* it asks anew, and that answer tells */
    case BOARDING_REFUSED: /* nobody asked */ return;
    }
}

void stage_settle_left(struct exchange *exchange)
{
    if (exchange->rider.has_led || stream_is_unanswered(exchange->alone))
        settle_unanswered(exchange);
}
