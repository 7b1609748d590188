/* Json body: a number of the client's, out of bytes that may be anything. */
#include "json_body.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json_body *read_text(const char *text)
{
    return json_body_read(slice_text(text));
}

static void expect(const char *text, const char *pointer, enum json_found want, int64_t want_number)
{
    struct json_body *body = read_text(text);
    int64_t number = 0;

    cr_assert_not_null(body, "%s is not read", text);
    cr_expect_eq(json_body_look(body, pointer, &number), want, "%s at %s", text, pointer);
    cr_expect_eq(number, want_number, "%s at %s: %ld", text, pointer, (long)number);
    json_body_free(&body);
    cr_expect_null(body);
}

Test(json_body, numbers_and_arrays_are_found)
{
    expect("{\"n\":5}", "/n", JSON_WHOLE, 5);
    expect("{\"n\":-5}", "/n", JSON_WHOLE, -5);
    expect("{\"n\":[]}", "/n", JSON_WHOLE, 0);
    expect("{\"n\":[1,[2,3],{}]}", "/n", JSON_WHOLE, 3);
    expect("{\"n\":[1,[2,3,4],{}]}", "/n/1", JSON_WHOLE, 3);
    expect("{\"a\":{\"b/c\":{\"~\":7}}}", "/a/b~1c/~0", JSON_WHOLE, 7);
    expect(" [9] ", "/0", JSON_WHOLE, 9);
    expect("[9]", "", JSON_WHOLE, 1);
    expect("12", "", JSON_WHOLE, 12);
    expect("{\"n\":9223372036854775807}", "/n", JSON_WHOLE, INT64_MAX);
    expect("{\"n\":18446744073709551615}", "/n", JSON_WHOLE, INT64_MAX);
    expect("{\"n\":99999999999999999999999}", "/n", JSON_WHOLE, INT64_MAX);
    expect("{\"n\":-99999999999999999999999}", "/n", JSON_WHOLE, INT64_MIN);
    expect("{\"\":3}", "/", JSON_WHOLE, 3);
}

Test(json_body, what_is_no_whole_number_is_something_else)
{
    static const char *const values[] = {"1.5",  "1.0", "1e3",       "\"5\"", "true",
                                         "null", "{}",  "{\"a\":1}", "\"\""};

    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        char text[64];

        snprintf(text, sizeof(text), "{\"n\":%s}", values[i]);
        expect(text, "/n", JSON_OTHER, 0);
    }
}

Test(json_body, what_is_not_there_is_nothing)
{
    expect("{}", "/n", JSON_NOTHING, 0);
    expect("{\"m\":1}", "/n", JSON_NOTHING, 0);
    expect("{\"N\":1}", "/n", JSON_NOTHING, 0);
    expect("{\"n\":5}", "/n/x", JSON_NOTHING, 0);
    expect("[1,2]", "/n", JSON_NOTHING, 0);
    expect("[1,2]", "/2", JSON_NOTHING, 0);
    expect("[1,2]", "/-", JSON_NOTHING, 0);
    expect("5", "/n", JSON_NOTHING, 0);
    expect("null", "/n", JSON_NOTHING, 0);
}

Test(json_body, what_is_not_json_is_not_read)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "{\"n\":1",
        "{\"n\":1}}",
        "{\"n\":1} x",
        "{\"n\":1}{\"n\":2}",
        "{'n':1}",
        "{n:1}",
        "{\"n\":1,}",
        "[1,]",
        "[1 2]",
        "{\"n\"::1}",
        "{\"n\":01}",
        "{\"n\":+1}",
        "{\"n\":0x1}",
        "{\"n\":.5}",
        "{\"n\":NaN}",
        "{\"n\":True}",
        "/**/{\"n\":1}",
        "{\"n\":\"\xff\"}",
        "\xef\xbb\xbf{\"n\":1}",
        "nul",
        "n=5&m=6",
        "\x1f\x8b\x08",
        "{\"n\":\"\\x\"}",
        "-",
        "{\"n\":1-2}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        cr_expect_null(read_text(texts[i]), "%s is read", texts[i]);
}

/* The upstream's reader may keep the first where ours keeps the last. */
Test(json_body, a_name_given_twice_makes_it_unreadable)
{
    static const char *const texts[] = {
        "{\"n\":1,\"n\":100}",
        "{\"n\":1,\"\\u006e\":100}",
        "{\"a\":{\"n\":1,\"n\":1}}",
        "[{\"x\":[{\"n\":1,\"n\":1}]}]",
        "{\"n\":{\"a\":1,\"b\":2},\"n\":{\"c\":3}}",
        "{\"n\":1,\"n\\u0000\":2}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        cr_expect_null(read_text(texts[i]), "%s is read", texts[i]);
    expect("{\"n\":4,\"a\":{\"n\":1},\"b\":[{\"n\":1},{\"n\":2}]}", "/n", JSON_WHOLE, 4);
}

Test(json_body, depth_is_bounded)
{
    static const size_t depths[] = {31, 33, 1000, 16384};

    for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
        char *text = malloc(2 * depths[i] + 1);
        struct json_body *body;

        memset(text, '[', depths[i]);
        memset(text + depths[i], ']', depths[i]);
        text[2 * depths[i]] = 0;
        body = read_text(text);
        cr_expect_eq(body != NULL, depths[i] <= 31, "%zu", depths[i]);
        json_body_free(&body);
        free(text);
    }
}

Test(json_body, no_cut_and_no_changed_byte_does_harm)
{
    static const char text[] =
        "{\"a\":[1,{\"b\\u00e9\":-2.5e3}],\"n\":[true,null,\"\\\"\"],\"m\":18446744073709551616}";

    for (size_t len = 0; len < sizeof(text); len++)
        for (int change = 0; change < 256; change += 5) {
            char *copy = malloc(len + 1); /* on the heap, where a sanitizer sees its end */
            struct json_body *body;
            int64_t number;

            memcpy(copy, text, len);
            if (len > 0)
                copy[len / 2] = (char)change;
            body = json_body_read(slice_of(copy, len));
            if (body != NULL)
                json_body_look(body, "/n", &number);
            json_body_free(&body);
            free(copy);
        }
}
