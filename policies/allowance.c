/* Allowance: see allowance.h. */
#include "allowance.h"

int64_t allowance_available(const struct budget *budget, const struct limit_terms *terms, int64_t held)
{
    int64_t left = budget_available(budget, terms) - held;

    return left > 0 ? left : 0;
}

int64_t allowance_passing(const struct budget *budget, const struct limit_terms *terms, int64_t held,
                          int64_t cost, int64_t count)
{
    return limit_smaller(count, allowance_available(budget, terms, held) / cost);
}

int64_t allowance_retry_us(const struct budget *budget, const struct limit_terms *terms, int64_t held,
                           int64_t cost, int64_t now_us)
{
    int64_t capacity = limit_capacity(terms), left = budget_available(budget, terms);

    if (cost > capacity)
        return LIMIT_NEVER;
    if (left >= cost && left - held < cost)
        return LIMIT_UNFORESEEN;
    return budget_retry_us(budget, terms, held <= capacity - cost ? held + cost : cost, now_us);
}
