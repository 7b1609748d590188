/* Any bytes as Range and Content-Range: what is read lies within the whole, and the one spelling of a range means the same. */
#include "check.h"
#include "range.h"

enum { WHOLE_BYTES = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice value = slice_of((const char *)data, size);
    char room[RANGE_TEXT_ROOM];
    struct text text = text_in(room, sizeof(room));
    struct byte_range range = {0, 0}, again = {0, 0};
    enum range_answer answer = range_read(value, WHOLE_BYTES, &range);
    int64_t whole = 0;

    CHECK(answer != RANGE_PART ||
          (range.first >= 0 && range.first <= range.last && range.last < WHOLE_BYTES));
    struct byte_range parts[RANGE_MAX_PARTS];
    size_t count = 0;
    enum range_answer several = range_read_parts(value, WHOLE_BYTES, parts, &count);

    CHECK(several == answer || (several == RANGE_PARTS && answer == RANGE_WHOLE));
    for (size_t i = 0; several == RANGE_PARTS && i < count; i++)
        CHECK(parts[i].first <= parts[i].last && parts[i].last < WHOLE_BYTES &&
              (i == 0 ? parts[i].first >= 0 : parts[i].first > parts[i - 1].last + 1));
    if (range_is_part(value, &text)) {
        CHECK(text_fits(&text));
        CHECK(range_read(text_slice(&text), WHOLE_BYTES, &again) == answer);
        CHECK(answer != RANGE_PART || (again.first == range.first && again.last == range.last));
    }
    if (content_range_read(value, &range, &whole))
        CHECK(range.first >= 0 && range.first <= range.last && (whole == -1 || range.last < whole));
    return 0;
}
