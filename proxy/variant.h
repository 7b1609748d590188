/* Variant: several answers for one key, told apart by request fields (RFC 9111 section 4.1).
 *
 * Where an answer varies, what is stored at its key is a rule: the names of the fields that count. The answer
 * itself lies at a key made of that key and of what the request says in these fields. That key may again hold a
 * rule, where some of the variants depend on more than others: rules form a tree, and nothing ever has to be
 * moved. A plan knows where in it the request stands: its key, and the names told apart on the way there.
 */
#ifndef WEIR_VARIANT_H
#define WEIR_VARIANT_H

#include "flight.h"

#define VARIANT_RULE_FIELD SLICE("weir-vary") /* of an object that is a rule; taken out of everybody else's */

bool object_is_rule(const struct object *object);

/* One step down: from the key that holds the rule `names` to the one for this plan's request. False: the rule
 * says nothing new, so it is none of ours. */
bool variant_follow(struct load_plan *plan, struct slice names);
bool variant_follow_rule(struct load_plan *plan, const struct object *rule);

/* Who wants one language before all others would be given the answer in it, where there is one (RFC 9110 section 12.5.4).
 * So an answer that says which language it is in lies, near, also where requests for that language alone lead; and a
 * request whose own variant is not near looks there for what it wants most: held, fresh and in that language, or NULL. */
void variant_put_preferred(struct near *near, const struct load_plan *plan, const struct object *answer);
struct object *variant_find_preferred(struct near *near, const struct load_plan *plan, struct mono_ms now);

/* A rule for the plan's key, one reference; `lifetimes` is what the store is to be told. */
struct object *variant_rule_new(const struct load_plan *plan, struct slice names, int64_t epoch,
                                struct mono_ms now, struct lifetimes *lifetimes);

#endif
