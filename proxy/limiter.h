/* Limiter: collects the limit decisions of one loop turn and asks the store for all of them at once.
 *
 * Requests of a turn with the same charges become one tuple with a count, as long as no other one that shares
 * a key came between: who gets in is decided by the order of arrival. Where the store fails, each limit's
 * on_store_failure speaks: closed refuses, open passes, local asks this process's own memory store, in one
 * atomic decision for all local limits of the request. That store is told what the other one answers, and goes on from there.
 *
 * What is held instead of charged (concurrency, a cost that the answer tells) stays with its request until limiter_settle() or
 * limiter_leave(), which every request is to end with.
 *
 * A limit in shadow is decided in the same step, for what the others let pass and alone, is charged as if it were enforced,
 * and shows in nothing but its figures.
 */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include "limit_request.h"

struct limiter;

/* `fallback`: a memory store handle for local decisions; the limiter owns neither store. */
struct limiter *limiter_new(struct loop *loop, struct store *store, struct store *fallback);
void limiter_free(struct limiter *limiter);

/* `decided` runs exactly once, not before the turn's LOOP_DECIDE phase, unless limiter_leave() is called
 * first. */
void limiter_ask(struct limiter *limiter, struct limit_request *request);
/* What was asked may still be charged; what is held is given back. */
void limiter_leave(struct limiter *limiter, struct limit_request *request);

/* What the request holds of limits whose cost the upstream's answer tells is settled, once. By the answer's fields; or, where it
 * was asked and none came, at what was held. */
void limiter_settle(struct limit_request *request, const struct header *headers, size_t count);
void limiter_settle_unanswered(struct limit_request *request);

/* Holds have ended of which a store that is there has not heard: turn the loop. */
bool limiter_is_settling(const struct limiter *limiter);

/* Of a tentative request that was refused or is too costly: that is what its client is told. */
void limiter_count_refusal(const struct limit_request *request);

/* What a shared store refused a moment ago is refused without asking it (refusals.h), until something in the store is corrected by
 * hand. To be called when rules are replaced. */
void limiter_forget_refusals(struct limiter *limiter);
/* For tests: another clock, in microseconds that never go backwards. */
void limiter_use_clock(struct limiter *limiter, int64_t (*read_us)(void));

#endif
