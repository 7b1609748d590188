/* Group tags: see group_tags.h. */
#include "group_tags.h"
#include "cache_groups.h"
#include "digest.h"

/* `group` NULL: of all groups of the host. A line feed is in neither host nor string. */
static void add_tag(struct group_tags *out, struct slice authority, const struct slice *group)
{
    static const char digits[] = "0123456789abcdef";
    struct slice parts[] = {authority, SLICE("\n"), group == NULL ? SLICE("") : *group};
    char *text = out->texts[out->count];
    unsigned char hash[32];

    digest_sha256(parts, group == NULL ? 1 : 3, hash);
    memcpy(text, "group ", 6);
    for (size_t i = 0; i < 16; i++) {
        text[6 + 2 * i] = digits[hash[i] >> 4];
        text[7 + 2 * i] = digits[hash[i] & 15];
    }
    out->tags[out->count++] = slice_of(text, GROUP_TAG_BYTES);
}

bool group_tags_of(struct group_tags *out, const struct header *headers, size_t count, struct slice authority)
{
    struct slice groups[GROUPS_MAX];
    size_t named = cache_groups_read(headers, count, SLICE("cache-groups"), groups, GROUPS_MAX);

    out->count = 0;
    if (named > GROUPS_MAX)
        return false;
    for (size_t i = 0; i < named; i++)
        add_tag(out, authority, &groups[i]);
    if (named > 0)
        add_tag(out, authority, NULL);
    return true;
}

void group_tags_invalidated(struct group_tags *out, const struct header *headers, size_t count,
                            struct slice authority)
{
    struct slice groups[GROUPS_MAX];
    size_t named = cache_groups_read(headers, count, SLICE("cache-group-invalidation"), groups, GROUPS_MAX);

    out->count = 0;
    if (named > GROUPS_MAX) {
        add_tag(out, authority, NULL);
        return;
    }
    for (size_t i = 0; i < named; i++)
        add_tag(out, authority, &groups[i]);
}
