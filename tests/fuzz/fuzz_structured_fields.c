/* Fuzz structured fields: whatever stands in a field, reading it ends, stays within its bytes, and two readings agree.
 *
 * The first byte says what kind of field it is; the rest are its lines, one a line.
 */
#include "check.h"
#include "structured_fields.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 16 };

static size_t split(struct slice text, struct header *lines)
{
    size_t count = 0;

    while (text.len > 0 && count < LINES_MAX) {
        const char *end = memchr(text.base, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.base);

        lines[count++] = (struct header){SLICE("f"), slice_of(text.base, len)};
        text = slice_of(text.base + len + (end != NULL), text.len - len - (end != NULL));
    }
    return count;
}

static void check_value(const struct sf_value *value)
{
    const int64_t most = INT64_C(999999999999999);
    size_t len = value->text.len;
    char *text = malloc(len + 1);

    CHECK(text != NULL);
    CHECK(sf_text_write(value, text, len) <= len);
    CHECK(value->type != SF_BOOLEAN || value->number == 0 || value->number == 1);
    CHECK(value->number >= -most && value->number <= most);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct header lines[LINES_MAX];
    struct sf_reader reader;
    enum sf_event event;
    size_t count, told = 0;
    bool is_open = false, is_sound;

    if (size == 0)
        return 0;
    count = split(slice_of((const char *)data + 1, size - 1), lines);
    sf_read_field(&reader, (enum sf_kind)(data[0] % 3), lines, count, SLICE("f"));
    is_sound = sf_is_sound(reader);
    while ((event = sf_next(&reader)) != SF_END && event != SF_MALFORMED) {
        CHECK(++told <= 2 * size); /* each event eats at least a byte, save the end of a list */
        CHECK(event != SF_INNER_LIST || !is_open);
        CHECK(event != SF_INNER_LIST_END || is_open);
        is_open = event == SF_INNER_LIST || (is_open && event != SF_INNER_LIST_END);
        if (event == SF_ITEM || event == SF_PARAMETER)
            check_value(&reader.value);
    }
    CHECK((event == SF_END) == is_sound);
    CHECK(!is_open || !is_sound);
    CHECK(sf_next(&reader) == event);
    return 0;
}
