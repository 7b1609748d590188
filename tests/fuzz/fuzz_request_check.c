/* Any bytes as a request head: what is called sound has one meaning only, checked here by other means than
 * the code's own. */
#include "check.h"
#include "request_check.h"
#include "upgrade.h"

#include <stdlib.h>

static size_t count_of(struct slice s, char c)
{
    size_t count = 0;

    for (size_t i = 0; i < s.len; i++)
        count += s.base[i] == c;
    return count;
}

static size_t lines_that_begin(struct slice head, const char *name)
{
    size_t len = strlen(name), count = 0;

    for (size_t i = 1; i + len <= head.len; i++)
        count +=
            head.base[i - 1] == '\n' && slice_eq_nocase(slice_of(head.base + i, len), slice_of(name, len));
    return count;
}

static void check_sound(struct slice raw, const struct request_bounds *bounds,
                        const struct request_facts *facts)
{
    struct slice head = slice_of(raw.base, facts->head_bytes);
    size_t lengths = lines_that_begin(head, "content-length:"),
           codings = lines_that_begin(head, "transfer-encoding:");
    char *authority;
    size_t len;

    CHECK(facts->head_bytes <= raw.len && facts->head_bytes <= bounds->max_head_bytes);
    CHECK(memcmp(head.base + head.len - 4, "\r\n\r\n", 4) == 0);
    CHECK(count_of(head, '\n') == count_of(head, '\r') && count_of(head, '\0') == 0);
    CHECK(lengths + codings <= 1 && (lengths == 1) == (facts->content_length >= 0) &&
          (codings == 1) == facts->is_chunked);
    CHECK(lines_that_begin(head, "host:") == 1 || (facts->is_http10 && lines_that_begin(head, "host:") == 0));
    CHECK(facts->header_count <= bounds->max_headers);
    CHECK(facts->target.len > 0 && facts->target.len <= bounds->max_target_bytes &&
          facts->target.base[0] == '/');
    for (size_t i = 0; i < facts->target.len; i++)
        CHECK(facts->target.base[i] > 0x20 && facts->target.base[i] < 0x7f);
    if (facts->authority.len == 0)
        return;
    authority = malloc(facts->authority.len);
    len = authority_write(facts->authority, false, authority);
    CHECK(len > 0 && len <= facts->authority.len && authority_is_valid(slice_of(authority, len)));
    CHECK(authority_write(slice_of(authority, len), false, authority) == len); /* one spelling */
    free(authority);
}

/* What is left of an Upgrade field fits where the field was, and asking for it once more changes nothing. */
static void check_upgrade(struct slice asked)
{
    char *room = malloc(asked.len), *again = malloc(asked.len);
    struct text once = text_in(room, asked.len), twice = text_in(again, asked.len);
    struct header agreed[] = {{SLICE("connection"), SLICE("upgrade")}, {SLICE("upgrade"), {room, 0}}};

    upgrade_write(asked, &once);
    CHECK(text_fits(&once));
    upgrade_write(text_slice(&once), &twice);
    CHECK(slice_eq(text_slice(&once), text_slice(&twice)));
    agreed[1].value = text_slice(&once);
    CHECK(upgrade_agreed(text_slice(&once), agreed, 2).base == NULL ||
          (once.len > 0 && memchr(room, ',', once.len) == NULL));
    free(room);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct request_bounds bounds = {
        .max_head_bytes = 512, .max_headers = 8, .max_target_bytes = 128};
    struct request_facts facts;
    char *exact = malloc(size);
    struct slice raw = slice_of(exact, size);
    enum request_flaw flaw;

    memcpy(exact, data, size);
    flaw = request_check(raw, false, &bounds, &facts);
    if (flaw == REQUEST_SOUND)
        check_sound(raw, &bounds, &facts);
    if (flaw == REQUEST_SOUND && facts.upgrade.base != NULL)
        check_upgrade(facts.upgrade);
    CHECK((request_flaw_status(flaw) == 200) == (flaw == REQUEST_SOUND));
    free(exact);
    return 0;
}
