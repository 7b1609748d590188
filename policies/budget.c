/* Budget: what has one principal used of one limit, whatever the limit's algorithm?
 *
 * Tables of cases only: no default, so that a new algorithm must be thought of everywhere before it compiles.
 */
#include "budget.h"

#include "check.h"

static struct sliding_rule window_rule(const struct limit_terms *terms)
{
    return (struct sliding_rule){terms->limit, terms->window_us, terms->tick_us};
}

static struct log_rule log_rule(const struct limit_terms *terms)
{
    return (struct log_rule){terms->limit, terms->window_us};
}

static struct bucket_rule bucket_rule(const struct limit_terms *terms)
{
    return (struct bucket_rule){terms->limit, terms->burst, terms->window_us, terms->tick_us,
                                terms->lease_us > 0 ? terms->burst : 0};
}

static struct fixed_rule fixed_rule(const struct limit_terms *terms)
{
    return (struct fixed_rule){terms->limit, terms->calendar, terms->window_us};
}

int64_t budget_tick(const struct limit_terms *terms)
{
    bool has_window = terms->window_us > 0 && terms->window_us <= LIMIT_MAX_US && terms->limit > 0;

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return sliding_window_tick(terms->limit, terms->window_us);
    case LIMIT_SLIDING_LOG: return has_window && terms->limit <= SLIDING_LOG_MAX_LIMIT ? 1 : 0;
    case LIMIT_TOKEN_BUCKET:
        return token_bucket_tick(terms->limit, terms->burst, terms->lease_us > 0 ? terms->burst : 0,
                                 terms->window_us);
    case LIMIT_FIXED_WINDOW: return has_window && terms->limit <= LIMIT_EXACT ? 1 : 0;
    case LIMIT_CONCURRENCY:
        return terms->limit > 0 && terms->limit <= LIMIT_MOST_SLOTS && terms->lease_us > 0 ? 1 : 0;
    }
    CHECK(!"an algorithm is one of its own values");
    return 0;
}

int64_t limit_capacity(const struct limit_terms *terms)
{
    return terms->algorithm == LIMIT_TOKEN_BUCKET ? terms->burst : terms->limit;
}

int64_t limit_period_us(const struct limit_terms *terms)
{
    struct bucket_rule rule = bucket_rule(terms);

    switch (terms->algorithm) {
    case LIMIT_TOKEN_BUCKET: return token_bucket_fill_us(&rule);
    case LIMIT_CONCURRENCY: return 0;
    case LIMIT_SLIDING_WINDOW:
    case LIMIT_SLIDING_LOG:
    case LIMIT_FIXED_WINDOW: return terms->window_us;
    }
    CHECK(!"an algorithm is one of its own values");
    return 0;
}

/* ---- a budget of another algorithm ---- */

static int64_t units_remembered(const struct budget *budget)
{
    switch (budget->algorithm) {
    case LIMIT_SLIDING_WINDOW: return sliding_window_remembered(&budget->of.window);
    case LIMIT_SLIDING_LOG: return sliding_log_remembered(&budget->of.log);
    case LIMIT_TOKEN_BUCKET: return token_bucket_remembered(&budget->of.bucket);
    case LIMIT_FIXED_WINDOW: return fixed_window_remembered(&budget->of.fixed);
    case LIMIT_CONCURRENCY: return 0;
    }
    return 0; /* whatever it was, it is not ours */
}

static int64_t last_admission_us(const struct budget *budget)
{
    switch (budget->algorithm) {
    case LIMIT_SLIDING_WINDOW: return budget->of.window.stamp_us;
    case LIMIT_SLIDING_LOG: return budget->of.log.last_us;
    case LIMIT_TOKEN_BUCKET: return budget->of.bucket.stamp_us;
    case LIMIT_FIXED_WINDOW: return budget->of.fixed.stamp_us;
    case LIMIT_CONCURRENCY: return 0;
    }
    return 0;
}

static bool advance(struct budget *budget, const struct limit_terms *terms, int64_t now_us)
{
    struct sliding_rule window = window_rule(terms);
    struct log_rule log = log_rule(terms);
    struct bucket_rule bucket = bucket_rule(terms);
    struct fixed_rule fixed = fixed_rule(terms);

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return sliding_window_advance(&budget->of.window, &window, now_us);
    case LIMIT_SLIDING_LOG: return sliding_log_advance(&budget->of.log, &log, now_us);
    case LIMIT_TOKEN_BUCKET: return token_bucket_advance(&budget->of.bucket, &bucket, now_us);
    case LIMIT_FIXED_WINDOW: return fixed_window_advance(&budget->of.fixed, &fixed, now_us);
    case LIMIT_CONCURRENCY: return false;
    }
    CHECK(!"an algorithm is one of its own values");
    return false;
}

struct budget budget_of_units(const struct limit_terms *terms, int64_t units, int64_t at_us)
{
    struct budget budget = {.algorithm = terms->algorithm};

    if (units > 0 && terms->algorithm != LIMIT_CONCURRENCY) {
        advance(&budget, terms, at_us);
        budget_charge(&budget, limit_smaller(limit_capacity(terms), units));
    }
    return budget;
}

bool budget_advance(struct budget *budget, const struct limit_terms *terms, int64_t now_us)
{
    if (budget->algorithm == terms->algorithm)
        return advance(budget, terms, now_us);

    *budget = budget_of_units(terms, units_remembered(budget), last_admission_us(budget));
    return advance(budget, terms, now_us);
}

void budget_note_asked(struct budget *stored, const struct limit_terms *terms)
{
    if (stored->algorithm == LIMIT_SLIDING_LOG && terms->algorithm != LIMIT_SLIDING_LOG &&
        terms->algorithm != LIMIT_CONCURRENCY)
        sliding_log_forget_moments(&stored->of.log);
}

int64_t budget_available(const struct budget *budget, const struct limit_terms *terms)
{
    struct sliding_rule window = window_rule(terms);
    struct log_rule log = log_rule(terms);
    struct bucket_rule bucket = bucket_rule(terms);
    struct fixed_rule fixed = fixed_rule(terms);

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return sliding_window_available(&budget->of.window, &window);
    case LIMIT_SLIDING_LOG: return sliding_log_available(&budget->of.log, &log);
    case LIMIT_TOKEN_BUCKET: return token_bucket_available(&budget->of.bucket, &bucket);
    case LIMIT_FIXED_WINDOW: return fixed_window_available(&budget->of.fixed, &fixed);
    case LIMIT_CONCURRENCY: return terms->limit;
    }
    CHECK(!"an algorithm is one of its own values");
    return 0;
}

int64_t budget_passing(const struct budget *budget, const struct limit_terms *terms, int64_t cost,
                       int64_t count)
{
    return limit_smaller(count, budget_available(budget, terms) / cost);
}

uint32_t budget_room_wanted(const struct budget *budget)
{
    return budget->algorithm == LIMIT_SLIDING_LOG ? sliding_log_room_wanted(&budget->of.log) : 0;
}

void budget_charge(struct budget *budget, int64_t units)
{
    switch (budget->algorithm) {
    case LIMIT_SLIDING_WINDOW: sliding_window_charge(&budget->of.window, units); return;
    case LIMIT_SLIDING_LOG: sliding_log_charge(&budget->of.log, units); return;
    case LIMIT_TOKEN_BUCKET: token_bucket_charge(&budget->of.bucket, units); return;
    case LIMIT_FIXED_WINDOW: fixed_window_charge(&budget->of.fixed, units); return;
    case LIMIT_CONCURRENCY: break;
    }
    CHECK(!"an algorithm is one that charges");
}

int64_t budget_owing(const struct budget *budget, const struct limit_terms *terms, int64_t units)
{
    struct sliding_rule window = window_rule(terms);
    struct bucket_rule bucket = bucket_rule(terms);

    switch (budget->algorithm) {
    case LIMIT_SLIDING_WINDOW: return limit_smaller(units, sliding_window_room(&budget->of.window, &window));
    case LIMIT_SLIDING_LOG: return limit_smaller(units, sliding_log_room(&budget->of.log));
    case LIMIT_TOKEN_BUCKET: return limit_smaller(units, token_bucket_room(&budget->of.bucket, &bucket));
    case LIMIT_FIXED_WINDOW: return limit_smaller(units, fixed_window_room(&budget->of.fixed));
    case LIMIT_CONCURRENCY: return 0;
    }
    CHECK(!"an algorithm is one of its own values");
    return 0;
}

int64_t budget_reset_us(const struct budget *budget, const struct limit_terms *terms, int64_t now_us)
{
    struct sliding_rule window = window_rule(terms);
    struct log_rule log = log_rule(terms);
    struct bucket_rule bucket = bucket_rule(terms);
    struct fixed_rule fixed = fixed_rule(terms);

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return sliding_window_reset_us(&budget->of.window, &window, now_us);
    case LIMIT_SLIDING_LOG: return sliding_log_reset_us(&budget->of.log, &log, now_us);
    case LIMIT_TOKEN_BUCKET: return token_bucket_reset_us(&budget->of.bucket, &bucket, now_us);
    case LIMIT_FIXED_WINDOW: return fixed_window_reset_us(&budget->of.fixed, &fixed, now_us);
    case LIMIT_CONCURRENCY: return 0;
    }
    CHECK(!"an algorithm is one of its own values");
    return 0;
}

int64_t budget_retry_us(const struct budget *budget, const struct limit_terms *terms, int64_t cost,
                        int64_t now_us)
{
    struct sliding_rule window = window_rule(terms);
    struct log_rule log = log_rule(terms);
    struct bucket_rule bucket = bucket_rule(terms);
    struct fixed_rule fixed = fixed_rule(terms);

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return sliding_window_retry_us(&budget->of.window, &window, cost, now_us);
    case LIMIT_SLIDING_LOG: return sliding_log_retry_us(&budget->of.log, &log, cost, now_us);
    case LIMIT_TOKEN_BUCKET: return token_bucket_retry_us(&budget->of.bucket, &bucket, cost, now_us);
    case LIMIT_FIXED_WINDOW: return fixed_window_retry_us(&budget->of.fixed, &fixed, cost, now_us);
    case LIMIT_CONCURRENCY: return cost > terms->limit ? LIMIT_NEVER : 0;
    }
    CHECK(!"an algorithm is one of its own values");
    return LIMIT_NEVER;
}

int64_t budget_ttl_ms(const struct budget *budget, const struct limit_terms *terms, int64_t now_us)
{
    struct log_rule log = log_rule(terms);
    struct bucket_rule bucket = bucket_rule(terms);
    struct fixed_rule fixed = fixed_rule(terms);

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return sliding_window_ttl_ms(&budget->of.window, now_us);
    case LIMIT_SLIDING_LOG: return sliding_log_ttl_ms(&budget->of.log, &log, now_us);
    case LIMIT_TOKEN_BUCKET: return token_bucket_ttl_ms(&budget->of.bucket, &bucket, now_us);
    case LIMIT_FIXED_WINDOW: return fixed_window_ttl_ms(&budget->of.fixed, &fixed, now_us);
    case LIMIT_CONCURRENCY: return limit_ttl_ms(now_us, now_us);
    }
    CHECK(!"an algorithm is one of its own values");
    return 1;
}
