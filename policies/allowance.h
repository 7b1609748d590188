/* Allowance: what is left of a limit beside what was charged and what is held, and when will it do?
 *
 * Of a limit whose terms have a lease
 *
 *     a request of cost k passes while   held + k  <=  what the algorithm leaves of the limit
 *
 * where `held` are the units of all live holds (holds.h). It is then charged, or takes a hold itself. Of concurrency that is the whole rule: nothing is ever charged, and what the
 * algorithm leaves is the limit itself. With the others a hold ends by being settled: it is dropped, and what the work
 * really cost is charged at that moment. As long as that is no more than was held it fits: what an algorithm leaves
 * only grows with time, so beside all other holds there is still room for it. Requests at one time can therefore not overspend.
 * What is above the hold is charged all the same (budget_owing()), and nothing passes until it has come back.
 *
 * Without holds, `held` is 0 and these are the budget's own answers.
 */
#ifndef WEIR_ALLOWANCE_H
#define WEIR_ALLOWANCE_H

#include "budget.h"

/* The budget is at the present (budget_advance()). */
int64_t allowance_available(const struct budget *budget, const struct limit_terms *terms, int64_t held);
/* How many of `count` identical requests of `cost` (>= 1) pass: the first so many. */
int64_t allowance_passing(const struct budget *budget, const struct limit_terms *terms, int64_t held,
                          int64_t cost, int64_t count);
/* 0: it passes now. LIMIT_NEVER. LIMIT_UNFORESEEN: nobody knows, because holds alone keep it out (it may pass as soon as one ends, long
 * before anything that was charged comes back). Else from now_us to the moment at which it passes even if every hold is still there,
 * or was settled at no more than it held, and nobody else came; where so much is held that there is no such moment, to the one before
 * which it passes in no case. */
int64_t allowance_retry_us(const struct budget *budget, const struct limit_terms *terms, int64_t held,
                           int64_t cost, int64_t now_us);

#endif
