/* Settings invalidates: the tags that a route's answers invalidate, and how: a tag alone, or with more about it. */
#include "settings_sections.h"

/* While one item of the list is read. */
struct invalidate_draft {
    struct template tag;
    bool has_tag, is_soft;
};

static void read_tag(struct draft *draft, const struct node *node, void *into)
{
    struct invalidate_draft *item = into;

    item->has_tag = read_template(draft, node, true, &item->tag);
}

static const struct setting invalidates_rows[] = {
    {.key = "tag",
     .type = SETTING_OWN,
     .read = read_tag,
     .is_required = true,
     .shape = "a tag such as report or product:{id}",
     .means = "The tag, with variables as in `tags`, and {json:/pointer} of the answer's JSON."},
    {.key = "soft",
     .type = SETTING_BOOL,
     .offset = offsetof(struct invalidate_draft, is_soft),
     .preset = "false",
     .means = "What carries it becomes stale instead of void: it may be served while one request fetches the "
              "new one, as far as "
              "its stale windows allow."},
};
const struct section section_invalidates = SECTION_OF("routes[].invalidates[]", invalidates_rows);

static struct invalidate_draft read_item(struct draft *draft, const struct node *node)
{
    struct invalidate_draft item = {.has_tag = false};

    if (node->kind == NODE_MAP)
        section_read(draft, node, &section_invalidates, &item);
    else
        read_tag(draft, node, &item);
    return item;
}

/* The soft ones go first, as the store is told them. */
void read_invalidates(struct draft *draft, const struct node *node, void *into)
{
    struct route_rule *route = into;

    if (!want_list(draft, node, "a list of tags", MAX_TAGS))
        return;
    route->invalidates = draft_alloc(draft, (node->count + 1) * sizeof *route->invalidates);
    for (size_t i = 0; i < node->count; i++) {
        struct invalidate_draft item = read_item(draft, node->items[i]);

        if (!item.has_tag)
            continue;
        if (item.is_soft) {
            route->invalidates[route->invalidate_count++] = route->invalidates[route->soft_invalidate_count];
            route->invalidates[route->soft_invalidate_count++] = item.tag;
        } else {
            route->invalidates[route->invalidate_count++] = item.tag;
        }
    }
}
