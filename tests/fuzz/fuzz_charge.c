/* Any bytes as what says who asks and what it costs: a body that is read is read alike each time, a key has the length that it is said
 * to have, and a parameter is the same however much of it is escaped. */
#include "check.h"
#include "cost.h"
#include "json_body.h"
#include "path_parts.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a tag may be made of: every byte of it is there. */
static void read_texts(const struct json_body *body, const char *pointer, enum json_found found)
{
    static volatile char touched;
    struct slice texts[16];
    size_t count = json_body_texts(body, pointer, texts, 16);

    CHECK(count == SIZE_MAX || count <= 16);
    CHECK(found != JSON_NOTHING || count == 0);
    for (size_t i = 0; count != SIZE_MAX && i < count; i++)
        for (size_t at = 0; at < texts[i].len; at++)
            touched = texts[i].base[at];
}

static void read_body(struct slice text)
{
    static const char *const pointers[] = {"", "/n", "/0", "/a/b", "/n/-", "/~1~0"};
    struct json_body *body = json_body_read(text), *again = json_body_read(text);

    CHECK((body == NULL) == (again == NULL));
    for (size_t i = 0; body != NULL && i < sizeof(pointers) / sizeof(*pointers); i++) {
        int64_t number = 0, same = 0;
        enum json_found found = json_body_look(body, pointers[i], &number);

        CHECK(json_body_look(again, pointers[i], &same) == found && same == number);
        CHECK(found == JSON_WHOLE || number == 0);
        read_texts(body, pointers[i], found);
    }
    json_body_free(&body);
    json_body_free(&again);
}

static size_t write_key(const struct limit_key *key, const struct limit_key_facts *facts, char **out)
{
    size_t len = limit_key_write(key, facts, 64, NULL, 0);

    *out = NULL;
    if (len == LIMIT_KEY_ABSENT || len == LIMIT_KEY_AMBIGUOUS)
        return len;
    *out = malloc(len + 1); /* its end is where a sanitizer sees it */
    CHECK(limit_key_write(key, facts, 64, *out, len) == len);
    return len;
}

/* As an operator names a caller: by the parts of a path. */
static void read_told_key(struct slice path)
{
    struct limit_key key = {.parts = {{LIMIT_KEY_HEADER, SLICE("k")},
                                      {.kind = LIMIT_KEY_IP},
                                      {.kind = LIMIT_KEY_HOST},
                                      {LIMIT_KEY_COOKIE, SLICE("c")}},
                            .part_count = 4};
    char *room = malloc(path.len + 1), *out;
    struct slice parts[5];
    size_t count = path_parts(path, room, parts, 5), len, sum = 0;

    if (count <= 5) {
        for (size_t i = 0; i < count; i++)
            sum += parts[i].len;
        CHECK(sum + (count > 0 ? count - 1 : 0) <= path.len);
        len = limit_key_write_values(&key, parts, count, 64, NULL, 0);
        if (len != LIMIT_KEY_ABSENT) {
            CHECK(count == 4);
            out = malloc(len + 1);
            CHECK(limit_key_write_values(&key, parts, count, 64, out, len) == len);
            free(out);
        }
    }
    free(room);
}

static void read_keys(struct slice text)
{
    struct header cookie = {SLICE("cookie"), text};
    struct limit_key_facts facts = {.headers = &cookie, .header_count = 1, .query = text, .authority = text};
    struct limit_key keys[] = {
        {.parts = {{LIMIT_KEY_QUERY, SLICE("k")}}, .part_count = 1},
        {.parts = {{LIMIT_KEY_COOKIE, SLICE("k")}}, .part_count = 1},
        {.parts = {{.kind = LIMIT_KEY_HOST}}, .part_count = 1},
        {.parts = {{LIMIT_KEY_QUERY, SLICE("k")}, {LIMIT_KEY_COOKIE, SLICE("k")}, {.kind = LIMIT_KEY_HOST}},
         .part_count = 3},
    };
    struct cost_rule rule = {.source = COST_OF_QUERY, .name = SLICE("k"), .max = 50};
    int64_t cost = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        char *out;

        CHECK(write_key(&keys[i], &facts, &out) > 0);
        free(out);
    }
    if (cost_of_text(&rule, &facts, &cost) == COST_STATED)
        CHECK(cost >= 1 && cost <= 50);
    else
        CHECK(cost == 0);
}

/* Whatever an upstream says of a cost is a number within bounds. */
static void read_answer_cost(struct slice text)
{
    struct header headers[2] = {{SLICE("x-cost"), text}, {SLICE("x-cost"), SLICE("7")}};
    struct cost_rule rule = {
        .source = COST_OF_RESPONSE, .name = SLICE("x-cost"), .max = 50, .reserve = 10, .unstated = 3};

    for (size_t count = 1; count <= 2; count++) {
        int64_t cost = cost_of_answer(&rule, 10, headers, count);

        CHECK(cost >= 0 && cost <= 50);
    }
}

/* Each byte escaped in upper or lower case is the value itself. */
static void escape_all(struct slice value)
{
    static const char digits[2][17] = {"0123456789abcdef", "0123456789ABCDEF"};
    struct limit_key key = {.parts = {{LIMIT_KEY_QUERY, SLICE("k")}}, .part_count = 1};
    size_t len = 2 + 3 * value.len;
    char *query = malloc(len), *out;
    struct limit_key_facts facts = {.query = {query, len}};

    memcpy(query, "k=", 2);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.base[i];

        query[2 + 3 * i] = '%';
        query[3 + 3 * i] = digits[i % 2][byte >> 4];
        query[4 + 3 * i] = digits[i % 2][byte & 15];
    }
    len = write_key(&key, &facts, &out);
    CHECK(value.len == 0 ? len == LIMIT_KEY_ABSENT : slice_eq(slice_of(out, len), value));
    free(out);
    free(query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = slice_of((const char *)data, size);

    read_body(text);
    read_told_key(text);
    read_answer_cost(text);
    read_keys(text);
    escape_all(text);
    return 0;
}
