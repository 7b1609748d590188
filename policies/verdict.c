/* Verdict: several limits judged one request; which one refuses it, when may it come back, and which is
 * nearest to its end? */
#include "verdict.h"

enum { US_PER_S = 1000000 };

bool limit_refuses(const struct limit_standing *standing)
{
    return standing->never || standing->is_unforeseen || standing->retry_after_us > 0;
}

/* Is `a` the one to name rather than `b`? Both refuse. */
static bool outranks(const struct limit_standing *a, const struct limit_standing *b)
{
    if (a->never || b->never)
        return a->never && !b->never;
    return a->retry_after_us > b->retry_after_us;
}

struct verdict verdict_reach(const struct limit_standing *standings, size_t count)
{
    struct verdict verdict = {.admitted = true};

    for (size_t i = 0; i < count; i++) {
        if (!limit_refuses(&standings[i]))
            continue;
        if (verdict.admitted || outranks(&standings[i], &standings[verdict.refused_by]))
            verdict.refused_by = i;
        verdict.admitted = false;
    }
    if (!verdict.admitted) {
        verdict.never = standings[verdict.refused_by].never;
        verdict.retry_after_us = verdict.never ? 0 : standings[verdict.refused_by].retry_after_us;
    }
    return verdict;
}

static bool is_closer(const struct limit_standing *a, const struct limit_standing *b)
{
    /* a->available / a->limit < b->available / b->limit; the products need more than 64 bits */
    __extension__ typedef unsigned __int128 wide;
    wide left = (wide)a->available * (wide)b->limit;
    wide right = (wide)b->available * (wide)a->limit;

    return left != right ? left < right : a->available < b->available;
}

size_t verdict_closest(const struct limit_standing *standings, size_t count)
{
    size_t closest = 0;

    for (size_t i = 1; i < count; i++)
        if (is_closer(&standings[i], &standings[closest]))
            closest = i;
    return closest;
}

int64_t verdict_certain_us(int64_t retry_after_us)
{
    int64_t certain_us = retry_after_us - retry_after_us / 1000 - (retry_after_us % 1000 > 0 ? 1 : 0);

    return certain_us < VERDICT_CERTAIN_MOST_US ? certain_us : VERDICT_CERTAIN_MOST_US;
}

enum when_refused verdict_resort(const struct limit_standing *standings, const enum when_refused *whens,
                                 size_t count)
{
    enum when_refused resort = REFUSE;
    bool is_first = true;

    for (size_t i = 0; i < count; i++) {
        if (!limit_refuses(&standings[i]))
            continue;
        if (standings[i].never || whens[i] == REFUSE)
            return REFUSE;
        if (is_first || whens[i] == WAIT_FOR_IT)
            resort = whens[i];
        is_first = false;
    }
    return resort;
}

int64_t verdict_retry_s(int64_t retry_after_us)
{
    int64_t seconds = retry_after_us / US_PER_S + (retry_after_us % US_PER_S > 0 ? 1 : 0);

    return seconds < 1 ? 1 : seconds;
}
