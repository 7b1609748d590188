/* Variant: see variant.h. */
#include "variant.h"

#include "digest.h"
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

static void hash_step(struct load_plan *plan, struct slice names, struct slice values)
{
    struct slice parts[] = {slice_of((const char *)plan->key.bytes, sizeof(plan->key.bytes)), SLICE("vary\n"),
                            names, SLICE("\n"), values};
    struct key32 next;

    digest_sha256(parts, sizeof(parts) / sizeof(parts[0]), next.bytes);
    plan->key = next;
}

bool variant_follow(struct load_plan *plan, struct slice names)
{
    char few[FEW_BYTES], *room = few;
    struct text values = text_in(few, sizeof(few));

    if (names.len <= plan->varied_len || names.len > sizeof(plan->varied))
        return false; /* names only grow: every way down ends */
    vary_write_values(names, plan->request.headers, plan->request.header_count, &values);
    if (!text_fits(&values)) { /* bounded by what a client may send */
        room = must_alloc(values.len);
        values = text_in(room, values.len);
        vary_write_values(names, plan->request.headers, plan->request.header_count, &values);
    }
    hash_step(plan, names, text_slice(&values));
    memcpy(plan->varied, names.base, names.len);
    plan->varied_len = names.len;
    if (room != few)
        free(room);
    return true;
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
