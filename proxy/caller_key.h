/* Caller key: which caller does an operator mean, who names a key in a URL or on the command line?
 *
 * The same principal as of a request with that key. Instead of a key `sha256:HEX` may be said, where HEX is what docs/limits.md has one
 * compute: the digest of kind and key, whole or its first 32 digits. So nobody must hand keys around to look something up.
 * What is wrong with a key is said in words for the operator, which never repeat it.
 */
#ifndef WEIR_CALLER_KEY_H
#define WEIR_CALLER_KEY_H

#include "known_plans.h"
#include "settings.h"

/* NULL: there is none of this name. */
const struct limit_rule *limit_named(const struct settings *settings, struct slice name);

/* ---- plans ---- */

/* By whose plan_key a caller is known: of the limit of this name, or, with an empty one, of any that has plans, as long as all
 * have the same. NULL: *flaw says why. */
const struct limit_rule *limit_with_plans(const struct settings *settings, struct slice name,
                                          const char **flaw);
/* NULL, or what is wrong. */
const char *caller_of_plan(const struct limit_rule *rule, struct slice key,
                           unsigned char out[PRINCIPAL_BYTES]);
/* Does a limit that knows its callers as `rule` does have a plan of this name? */
bool plan_is_offered(const struct settings *settings, const struct limit_rule *rule, struct slice plan);

/* ---- one limit's callers ---- */

enum caller_naming {
    CALLER_BY_KEY,
    CALLER_BY_ADDRESS, /* who is counted by address for want of a key */
    CALLER_SHARED,     /* all without a key together, by `missing: shared`; no value is named */
};

/* NULL, or what is wrong. `values`: one for each part of the limit's key that has any. */
const char *caller_of_limit(const struct limit_rule *rule, enum caller_naming naming,
                            const struct slice *values, size_t count, unsigned char out[PRINCIPAL_BYTES]);

#endif
