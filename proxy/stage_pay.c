/* Pay: a request for which the upstream is to be asked alone first pays what limits that count misses take for it. A load that others
 * may ride on is paid by its flight. */
#include "exchange.h"

static void fetch(struct exchange *exchange)
{
    move_to(exchange, STAGE_FETCHING);
    stage_fetch(exchange);
}

static void on_decided(void *arg)
{
    struct exchange *exchange = arg;

    switch (exchange->bill->ruling) {
    case RULING_ADMITTED:
        wait_no_longer(exchange);
        fetch(exchange);
        return;
    case RULING_REFUSED:
    case RULING_TOO_COSTLY:
    case RULING_UNAVAILABLE: stage_refused(exchange, exchange->bill); return;
    }
}

void stage_pay(struct exchange *exchange)
{
    if (exchange->bill == NULL) {
        fetch(exchange);
        return;
    }
    exchange->bill->decided = on_decided;
    exchange->bill->arg = exchange;
    limiter_ask(exchange->story->limiter, exchange->bill);
}
