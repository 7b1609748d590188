/* Variant: see variant.h. */
#include "variant.h"

#include "digest.h"
#include "http_char.h"
#include "memory.h"

#include <stdlib.h>

enum { FEW_BYTES = 2048 };

/* A rule is never wrong, only perhaps finer than need be; so this only bounds for how long an upstream that no
 * longer varies is taken to, and a rule has no tags: invalidations end the variants, and where these are to be found
 * stays known. */
static const int64_t RULE_LIFE_MS = INT64_C(86400000);

bool object_is_rule(const struct object *object)
{
    return object->header_count == 1 && slice_eq(object->headers[0].name, VARIANT_RULE_FIELD);
}

/* The key that the rule `names` at `rule_key` leads to, for the plan's request or one like it in this language alone. */
static struct key32 key_below(const struct key32 *rule_key, const struct load_plan *plan, struct slice names,
                              struct slice language)
{
    const struct origin_request *request = &plan->request;
    char few[FEW_BYTES], *room = few;
    struct text values = text_in(few, sizeof(few));
    struct key32 below;

    vary_write_values_in(language, names, request->headers, request->header_count, &values);
    if (!text_fits(&values)) { /* bounded by what a client may send */
        room = must_alloc(values.len);
        values = text_in(room, values.len);
        vary_write_values_in(language, names, request->headers, request->header_count, &values);
    }
    struct slice parts[] = {slice_of((const char *)rule_key->bytes, sizeof(rule_key->bytes)), SLICE("vary\n"),
                            names, SLICE("\n"), text_slice(&values)};
    digest_sha256(parts, sizeof(parts) / sizeof(parts[0]), below.bytes);
    if (room != few)
        free(room);
    return below;
}

bool variant_follow(struct load_plan *plan, struct slice names)
{
    if (names.len <= plan->varied_len || names.len > sizeof(plan->varied))
        return false; /* names only grow: every way down ends */
    plan->rule_key = plan->key;
    plan->key = key_below(&plan->rule_key, plan, names, slice_of(NULL, 0));
    memcpy(plan->varied, names.base, names.len);
    plan->varied_len = names.len;
    return true;
}

/* ---- the language that is wanted most ---- */

static bool varies_by_language(const struct load_plan *plan)
{
    struct slice names = slice_of(plan->varied, plan->varied_len), name;

    while (list_next(&names, &name))
        if (slice_eq(name, SLICE("accept-language")))
            return true;
    return false;
}

void variant_put_preferred(struct near *near, const struct load_plan *plan, const struct object *answer)
{
    struct slice language;
    struct object *other;
    struct key32 key;

    if (plan->is_part || !varies_by_language(plan) ||
        !vary_is_in_language(answer->headers, answer->header_count, &language))
        return;
    key = key_below(&plan->rule_key, plan, slice_of(plan->varied, plan->varied_len), language);
    if (memcmp(&key, &plan->key, sizeof(key)) == 0)
        return;
    other = object_rekeyed(answer, &key);
    near_put(near, other);
    object_release(&other);
}

struct object *variant_find_preferred(struct near *near, const struct load_plan *plan, struct mono_ms now)
{
    struct slice wanted, language;
    struct object *object;
    struct key32 key;

    if (!varies_by_language(plan) ||
        !vary_prefers_language(plan->request.headers, plan->request.header_count, &wanted))
        return NULL;
    key = key_below(&plan->rule_key, plan, slice_of(plan->varied, plan->varied_len), wanted);
    object = near_find(near, &key, now);
    if (object != NULL && (now.ms >= object->fresh_until.ms || object_is_rule(object) ||
                           !vary_is_in_language(object->headers, object->header_count, &language) ||
                           !slice_eq_nocase(language, wanted)))
        object_release(&object);
    return object;
}

bool variant_follow_rule(struct load_plan *plan, const struct object *rule)
{
    return variant_follow(plan, rule->headers[0].value);
}

struct object *variant_rule_new(const struct load_plan *plan, struct slice names, int64_t epoch,
                                struct mono_ms now, struct lifetimes *lifetimes)
{
    struct header header = {VARIANT_RULE_FIELD, names};

    *lifetimes = (struct lifetimes){RULE_LIFE_MS, RULE_LIFE_MS, RULE_LIFE_MS, 0, RULE_LIFE_MS};
    return object_new(&plan->key, epoch, 200, &header, 1, NULL, 0, NULL, 0, lifetimes, now);
}
