#include "structured_fields.h"

#include "text.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* All events as one text: "item:key=value ;key=value ( ) end". */
static void tell(struct sf_reader *reader, struct text *out)
{
    for (;;) {
        enum sf_event event = sf_next(reader);
        char text[256];
        size_t len;

        switch (event) {
        case SF_ITEM: text_add(out, reader->key); break;
        case SF_PARAMETER:
            text_add_char(out, ';');
            text_add(out, reader->key);
            break;
        case SF_INNER_LIST:
            text_add(out, reader->key);
            text_add_char(out, '(');
            continue;
        case SF_INNER_LIST_END: text_add(out, SLICE(") ")); continue;
        case SF_END: text_add_char(out, '.'); return;
        case SF_MALFORMED: text_add_char(out, '!'); return;
        }
        text_add_char(out, '=');
        len = sf_text_write(&reader->value, text, sizeof(text));
        switch (reader->value.type) {
        case SF_INTEGER:
        case SF_DECIMAL:
        case SF_DATE:
        case SF_BOOLEAN: text_add_int(out, reader->value.number); break;
        case SF_STRING:
        case SF_TOKEN:
        case SF_BYTES:
        case SF_DISPLAY_STRING: text_add(out, slice_of(text, len)); break;
        }
        text_add_char(out, ' ');
    }
}

static const char *told(enum sf_kind kind, const char *const *lines, size_t count)
{
    static char room[512];
    struct header headers[8];
    struct text out = text_in(room, sizeof(room) - 1);
    struct sf_reader reader;

    for (size_t i = 0; i < count; i++)
        headers[i] = (struct header){SLICE("f"), slice_text(lines[i])};
    sf_read_field(&reader, kind, headers, count, SLICE("f"));
    tell(&reader, &out);
    room[out.len] = '\0';
    return room;
}

static const char *told_line(enum sf_kind kind, const char *line)
{
    return told(kind, &line, 1);
}

Test(structured_fields, events_come_in_the_order_of_the_text)
{
    static const struct {
        const char *why;
        enum sf_kind kind;
        const char *line, *want;
    } rows[] = {
        {"a list of items", SF_KIND_LIST, "1, a;q=0.5, \"x\"", "=1 =a ;q=500 =x ."},
        {"a parameter without a value is true", SF_KIND_LIST, "a;b;c=?0", "=a ;b=1 ;c=0 ."},
        {"an inner list, and whose parameters are whose", SF_KIND_LIST, "(a;x=1 b);y=2, c",
         "(=a ;x=1 =b ) ;y=2 =c ."},
        {"an empty inner list", SF_KIND_LIST, "( )", "() ."},
        {"a dictionary", SF_KIND_DICTIONARY, "a=1, b, c;d=2, e=(x)", "a=1 b=1 c=1 ;d=2 e(=x ) ."},
        {"a key that comes twice is told twice", SF_KIND_DICTIONARY, "a=1, a=2", "a=1 a=2 ."},
        {"an item", SF_KIND_ITEM, "@-5;a", "=-5 ;a=1 ."},
        {"an item alone", SF_KIND_ITEM, "1, 2", "=1 !"},
        {"no inner list is an item", SF_KIND_ITEM, "(1)", "!"},
        {"nothing is an empty list", SF_KIND_LIST, "  ", "."},
        {"nothing is no item", SF_KIND_ITEM, " ", "!"},
        {"a comma wants something behind it", SF_KIND_LIST, "a, ", "=a !"},
        {"what came before a mistake was told: it does not count", SF_KIND_LIST, "a, \"b", "=a !"},
        {"a capital begins no key", SF_KIND_DICTIONARY, "A=1", "!"},
        {"no blank before a parameter", SF_KIND_LIST, "a ;b", "=a !"},
        {"no tab inside a list's parentheses", SF_KIND_LIST, "(a\tb)", "(=a !"},
        {"an inner list that is not closed", SF_KIND_LIST, "(a", "(=a !"},
        {"a decimal has at most three digits behind its point", SF_KIND_LIST, "1.2345", "!"},
        {"fifteen digits", SF_KIND_LIST, "-999999999999999", "=-999999999999999 ."},
        {"sixteen are too many", SF_KIND_LIST, "1000000000000000", "!"},
        {"a minus alone", SF_KIND_LIST, "-", "!"},
        {"a date is a whole number", SF_KIND_LIST, "@1.5", "!"},
        {"bytes", SF_KIND_LIST, ":aGVsbG8=:", "=hello ."},
        {"one base64 digit is no byte", SF_KIND_LIST, ":a:", "!"},
        {"escapes of a string", SF_KIND_LIST, "\"a\\\"\\\\b\"", "=a\"\\b ."},
        {"no other escapes", SF_KIND_LIST, "\"\\n\"", "!"},
        {"a display string", SF_KIND_LIST, "%\"f%c3%bc\"", "=f\xc3\xbc ."},
        {"an overlong form is no UTF-8", SF_KIND_LIST, "%\"%c0%af\"", "!"},
        {"nor a surrogate", SF_KIND_LIST, "%\"%ed%a0%80\"", "!"},
        {"nor what breaks off", SF_KIND_LIST, "%\"%e2%82\"", "!"},
        {"nor what is beyond the last one", SF_KIND_LIST, "%\"%f4%90%80%80\"", "!"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_str_eq(told_line(rows[i].kind, rows[i].line), rows[i].want, "%s", rows[i].why);
}

Test(structured_fields, lines_go_on_as_behind_a_comma)
{
    static const struct {
        const char *why;
        enum sf_kind kind;
        const char *lines[3];
        size_t count;
        const char *want;
    } rows[] = {
        {"a list", SF_KIND_LIST, {"a", " b", "c"}, 3, "=a =b =c ."},
        {"a dictionary", SF_KIND_DICTIONARY, {"a=1", "b"}, 2, "a=1 b=1 ."},
        {"an empty line in between", SF_KIND_LIST, {"a", "", "b"}, 3, "=a !"},
        {"an empty line first", SF_KIND_LIST, {"", "a"}, 2, "!"},
        {"an empty line last", SF_KIND_LIST, {"a", ""}, 2, "=a !"},
        {"nothing but empty ones", SF_KIND_LIST, {"", " "}, 2, "."},
        {"a string ends on its line", SF_KIND_LIST, {"\"a", "b\""}, 2, "!"},
        {"an item has one line", SF_KIND_ITEM, {"a", "b"}, 2, "=a !"},
        {"no line at all", SF_KIND_LIST, {NULL}, 0, "."},
        {"no line at all is no item", SF_KIND_ITEM, {NULL}, 0, "!"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_str_eq(told(rows[i].kind, rows[i].lines, rows[i].count), rows[i].want, "%s", rows[i].why);
}

Test(structured_fields, only_the_named_field_is_read)
{
    struct header headers[] = {{SLICE("a"), SLICE("1")}, {SLICE("b"), SLICE("!")}, {SLICE("a"), SLICE("2")}};
    char room[64];
    struct text out = text_in(room, sizeof(room));
    struct sf_reader reader;

    sf_read_field(&reader, SF_KIND_LIST, headers, 3, SLICE("a"));
    tell(&reader, &out);
    cr_assert(slice_eq(text_slice(&out), SLICE("=1 =2 .")));
}

Test(structured_fields, soundness_is_told_without_reading_on)
{
    struct sf_reader reader;

    sf_read_line(&reader, SF_KIND_LIST, SLICE("a, b"));
    cr_assert(sf_is_sound(reader));
    cr_assert_eq(sf_next(&reader), SF_ITEM);
    cr_assert(slice_eq(reader.value.text, SLICE("a")), "still at its beginning");
    sf_read_line(&reader, SF_KIND_LIST, SLICE("a, b;"));
    cr_assert_not(sf_is_sound(reader));
}

Test(structured_fields, the_end_stays_the_end)
{
    struct sf_reader reader;

    sf_read_line(&reader, SF_KIND_LIST, SLICE("a"));
    cr_assert_eq(sf_next(&reader), SF_ITEM);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sf_next(&reader), SF_END);
    sf_read_line(&reader, SF_KIND_LIST, SLICE(",a"));
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sf_next(&reader), SF_MALFORMED);
}

Test(structured_fields, a_text_is_written_as_far_as_there_is_room)
{
    struct sf_reader reader;
    char room[3] = "???";

    sf_read_line(&reader, SF_KIND_LIST, SLICE("\"hello\""));
    cr_assert_eq(sf_next(&reader), SF_ITEM);
    cr_assert_eq(sf_text_write(&reader.value, room, 2), 5, "its full length");
    cr_assert_eq(memcmp(room, "he?", 3), 0);
}
