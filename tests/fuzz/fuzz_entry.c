/* Fuzz entry: no bytes of a shared store may crash the decoder, and what it accepts comes back the same when
 * it is encoded and decoded once more.
 *
 * The first byte chooses the checksum: a real one, as damage meets it, or one that agrees with everything, so
 * that the fuzzer reaches what lies behind it.
 */
#include "check.h"
#include "digest.h"
#include "entry.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t agree(const void *bytes, size_t len)
{
    /* every byte is touched: a length that lies is a read that the sanitizer sees */
    static volatile unsigned char touched;
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        touched = at[i];
    return 0;
}

/* Which pieces the body had is not told by the view: it goes back as one. */
static void check_same_again(const struct entry_view *view, entry_checksum *checksum)
{
    struct entry entry = {.status = view->status,
                          .epoch = view->epoch,
                          .headers = view->headers,
                          .header_count = view->header_count,
                          .tags = view->tags,
                          .tag_count = view->tag_count,
                          .body = &view->body,
                          .body_count = 1,
                          .plain_bytes = view->plain_bytes};
    static struct entry_view again;
    size_t head_bytes = entry_head_bytes(&entry);

    CHECK(head_bytes > 0);
    unsigned char *bytes = malloc(head_bytes + view->body.len);
    CHECK(bytes != NULL);
    entry_encode_head(&entry, checksum, bytes);
    if (view->body.len > 0)
        memcpy(bytes + head_bytes, view->body.base, view->body.len);
    CHECK(entry_decode(slice_of((char *)bytes, head_bytes + view->body.len), checksum, &again) == ENTRY_OK);
    CHECK(again.status == view->status && again.epoch == view->epoch &&
          again.plain_bytes == view->plain_bytes);
    CHECK(again.header_count == view->header_count && again.tag_count == view->tag_count);
    for (size_t i = 0; i < view->header_count; i++)
        CHECK(slice_eq(again.headers[i].name, view->headers[i].name) &&
              slice_eq(again.headers[i].value, view->headers[i].value));
    for (size_t i = 0; i < view->tag_count; i++)
        CHECK(slice_eq(again.tags[i], view->tags[i]));
    CHECK(slice_eq(again.body, view->body));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct entry_view view;

    if (size == 0)
        return 0;
    entry_checksum *checksum = data[0] % 2 == 0 ? digest_checksum : agree;
    if (entry_decode(slice_of((const char *)data + 1, size - 1), checksum, &view) == ENTRY_OK)
        check_same_again(&view, checksum);
    return 0;
}
