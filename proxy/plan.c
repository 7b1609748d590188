/* Plan: see plan.h. */
#include "plan.h"
#include "memory.h"

#include <stdlib.h>

static struct slice put(char **to, struct slice from)
{
    struct slice copy = slice_of(*to, from.len);

    if (from.len > 0)
        memcpy(*to, from.base, from.len);
    *to += from.len;
    return copy;
}

static size_t text_bytes(const struct load_plan *from)
{
    size_t bytes = from->request.method.len + from->request.target.len + from->request.authority.len;

    for (size_t i = 0; i < from->tag_count; i++)
        bytes += from->tags[i].len;
    for (size_t i = 0; i < from->request.header_count; i++)
        bytes += from->request.headers[i].name.len + from->request.headers[i].value.len;
    return bytes;
}

struct load_plan *plan_copy(const struct load_plan *from)
{
    size_t headers_at = sizeof(*from),
           tags_at = headers_at + from->request.header_count * sizeof(struct header);
    size_t charges_at = tags_at + from->tag_count * sizeof(struct slice);
    size_t text_at = charges_at + from->charge_count * sizeof(struct limit_charge);
    char *base = must_alloc(text_at + text_bytes(from));
    struct load_plan *plan = (struct load_plan *)(void *)base;
    struct header *headers = (struct header *)(void *)(base + headers_at);
    struct slice *tags = (struct slice *)(void *)(base + tags_at);
    struct limit_charge *charges = (struct limit_charge *)(void *)(base + charges_at);
    char *text = base + text_at;

    *plan = *from;
    plan->site = site_hold(from->site);
    plan->request.method = put(&text, from->request.method);
    plan->request.target = put(&text, from->request.target);
    plan->request.authority = put(&text, from->request.authority);
    plan->request.headers = headers;
    for (size_t i = 0; i < from->request.header_count; i++) {
        headers[i].name = put(&text, from->request.headers[i].name);
        headers[i].value = put(&text, from->request.headers[i].value);
    }
    plan->charges = charges;
    if (from->charge_count > 0)
        memcpy(charges, from->charges, from->charge_count * sizeof(*charges));
    plan->tags = tags;
    for (size_t i = 0; i < from->tag_count; i++)
        tags[i] = put(&text, from->tags[i]);
    return plan;
}

void plan_free(struct load_plan **taken)
{
    struct load_plan *plan = *taken;

    *taken = NULL;
    if (plan == NULL)
        return;
    site_release(&plan->site);
    free(plan);
}
