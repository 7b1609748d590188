/* What a client reads about its limits, byte for byte. */
#include "ratelimit_fields.h"

#include <criterion/criterion.h>

enum { SECOND = 1000000 };

static const struct ratelimit_dialects all = {.draft_11 = true, .plain = true, .x = true};

static const struct ratelimit_item two[] = {
    {.name = {"everyone", 8}, .limit = 10000, .window_us = SECOND, .available = 9000, .reset_us = 250000},
    {.name = {"per_client", 10},
     .limit = 20,
     .window_us = 60 * SECOND,
     .available = 19,
     .reset_us = 41 * SECOND + 1},
};

static void expect(const struct header *fields, size_t count, size_t at, const char *name, const char *value)
{
    cr_assert_lt(at, count, "no %s", name);
    cr_assert(slice_eq(fields[at].name, slice_text(name)), "%.*s instead of %s", (int)fields[at].name.len,
              fields[at].name.base, name);
    cr_assert(slice_eq(fields[at].value, slice_text(value)), "%s: %.*s", name, (int)fields[at].value.len,
              fields[at].value.base);
}

Test(ratelimit_fields, every_dialect_tells_the_same_limits)
{
    char buffer[256];
    struct header fields[RATELIMIT_MAX_FIELDS];
    size_t count = ratelimit_fields(two, 2, 1, all, 0, buffer, sizeof(buffer), fields);

    cr_assert_eq(count, 8);
    expect(fields, count, 0, "ratelimit-policy", "\"everyone\";q=10000;w=1, \"per_client\";q=20;w=60");
    expect(fields, count, 1, "ratelimit", "\"everyone\";r=9000;t=1, \"per_client\";r=19;t=42");
    expect(fields, count, 2, "ratelimit-limit", "20");
    expect(fields, count, 3, "ratelimit-remaining", "19");
    expect(fields, count, 4, "ratelimit-reset", "42");
    expect(fields, count, 5, "x-ratelimit-limit", "20");
    expect(fields, count, 6, "x-ratelimit-remaining", "19");
    expect(fields, count, 7, "x-ratelimit-reset", "42");
}

Test(ratelimit_fields, only_the_dialects_asked_for)
{
    char buffer[256];
    struct header fields[RATELIMIT_MAX_FIELDS];
    struct ratelimit_dialects none = {0}, plain = {.plain = true}, draft = {.draft_11 = true};

    cr_assert_eq(ratelimit_fields(two, 2, 0, none, 0, buffer, sizeof(buffer), fields), 0);
    cr_assert_eq(ratelimit_fields(two, 0, 0, all, 0, buffer, sizeof(buffer), fields), 0,
                 "no limits, nothing to tell");
    cr_assert_eq(ratelimit_fields(two, 2, 0, plain, 0, buffer, sizeof(buffer), fields), 3);
    expect(fields, 3, 0, "ratelimit-limit", "10000");
    cr_assert_eq(ratelimit_fields(two, 1, 0, draft, 0, buffer, sizeof(buffer), fields), 2);
    expect(fields, 2, 1, "ratelimit", "\"everyone\";r=9000;t=1");
}

Test(ratelimit_fields, no_limit_turns_later_than_retry_after)
{
    const struct ratelimit_item refused[] = {
        {.name = SLICE("a"), .limit = 5, .window_us = 60 * SECOND, .available = 3, .reset_us = 50 * SECOND},
        {.name = SLICE("b"),
         .limit = 9,
         .window_us = 60 * SECOND,
         .reset_us = 50 * SECOND,
         .retry_after_us = 2500000},
        {.name = SLICE("c"),
         .limit = 9,
         .window_us = 60 * SECOND,
         .reset_us = 50 * SECOND,
         .retry_after_us = 70 * SECOND},
    };
    char buffer[256];
    struct header fields[RATELIMIT_MAX_FIELDS];

    size_t count = ratelimit_fields(refused, 2, 1, all, 2500000, buffer, sizeof(buffer), fields);
    expect(fields, count, 1, "ratelimit", "\"a\";r=3;t=3, \"b\";r=0;t=3");
    expect(fields, count, 4, "ratelimit-reset", "3");
    count = ratelimit_fields(refused, 3, 2, all, 70 * SECOND, buffer, sizeof(buffer), fields);
    expect(fields, count, 1, "ratelimit", "\"a\";r=3;t=50, \"b\";r=0;t=3, \"c\";r=0;t=50");
}

Test(ratelimit_fields, a_window_below_a_second_is_published_as_a_slower_one)
{
    const struct ratelimit_item item = {
        .name = SLICE("q"), .limit = 5, .window_us = 250000, .available = 5, .reset_us = 1};
    char buffer[128];
    struct header fields[RATELIMIT_MAX_FIELDS];

    ratelimit_fields(&item, 1, 0, all, 0, buffer, sizeof(buffer), fields);
    expect(fields, 1, 0, "ratelimit-policy", "\"q\";q=5;w=1");
}

Test(ratelimit_fields, numbers_and_names_stay_structured_fields)
{
    const struct ratelimit_item item = {.name = SLICE("a\"b\\c\xc3\xa4\n"),
                                        .limit = INT64_C(1) << 52,
                                        .window_us = INT64_C(1) << 50,
                                        .available = INT64_C(999999999999999),
                                        .reset_us = 1};
    char buffer[256];
    struct header fields[RATELIMIT_MAX_FIELDS];

    ratelimit_fields(&item, 1, 0, all, 0, buffer, sizeof(buffer), fields);
    expect(fields, 2, 0, "ratelimit-policy", "\"a\\\"b\\\\c???\";q=999999999999999;w=1125899907");
    expect(fields, 2, 1, "ratelimit", "\"a\\\"b\\\\c???\";r=999999999999999;t=1");
}

Test(ratelimit_fields, what_does_not_fit_is_left_out_whole)
{
    struct header fields[RATELIMIT_MAX_FIELDS];
    char all_room[256];
    size_t needed = 0, count = ratelimit_fields(two, 2, 1, all, 0, all_room, sizeof(all_room), fields);

    for (size_t i = 0; i < count; i++)
        needed += fields[i].value.len;
    for (size_t room = 0; room <= needed; room++) {
        char *buffer = malloc(room + 1); /* its own, so that a sanitizer sees a byte too many */
        buffer[room] = '#';
        count = ratelimit_fields(two, 2, 1, all, 0, buffer, room, fields);
        cr_assert(room < needed ? count < 8 : count == 8);
        cr_assert_eq(buffer[room], '#');
        for (size_t i = 0; i < count; i++)
            cr_assert_gt(fields[i].value.len, 0);
        free(buffer);
    }
}

static void expect_body(const struct refusal *refusal, const char *want)
{
    char body[1024];
    size_t len = refusal_body(refusal, body, sizeof(body));

    cr_assert(slice_eq(slice_of(body, len), slice_text(want)), "%.*s", (int)len, body);
    cr_assert_eq(refusal_body(refusal, body, len), len, "it fits exactly");
    cr_assert_eq(refusal_body(refusal, body, len - 1), 0, "or not at all");
}

Test(refusal, a_rate_limit_says_who_when_and_why)
{
    const struct slice violated[] = {SLICE("per_client"), SLICE("everyone")};

    expect_body(&(struct refusal){REFUSED_RATE, violated[0], violated, 2, 1500001, {NULL, 0}},
                "{\"type\":\"https://iana.org/assignments/"
                "http-problem-types#quota-exceeded\",\"title\":\"Quota exceeded\","
                "\"status\":429,\"detail\":\"Too many requests for the limit "
                "per_client.\",\"code\":\"rate_limit_exceeded\","
                "\"limit\":\"per_client\",\"violated-policies\":[\"per_client\",\"everyone\"],\"retry_after_"
                "ms\":1501}\n");
}

Test(refusal, what_can_never_pass_names_no_time)
{
    const struct slice violated[] = {SLICE("reports")};

    expect_body(&(struct refusal){REFUSED_COST, violated[0], violated, 1, 0, {NULL, 0}},
                "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
                "\"detail\":\"One such request costs more than all of the limit "
                "reports.\",\"code\":\"cost_exceeds_limit\","
                "\"limit\":\"reports\",\"violated-policies\":[\"reports\"]}\n");
}

Test(refusal, a_missing_key_and_an_absent_store_have_their_own_codes)
{
    const struct slice violated[] = {SLICE("per_client")};

    expect_body(
        &(struct refusal){REFUSED_KEY_MISSING, violated[0], violated, 1, 0, {NULL, 0}},
        "{\"type\":\"about:blank\",\"title\":\"Unauthorized\",\"status\":401,"
        "\"detail\":\"The request lacks the key that identifies its sender to the limit per_client.\","
        "\"code\":\"key_required\",\"limit\":\"per_client\",\"violated-policies\":[\"per_client\"]}\n");
    expect_body(
        &(struct refusal){REFUSED_KEY_AMBIGUOUS, violated[0], violated, 1, 0, {NULL, 0}},
        "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
        "\"detail\":\"The request names more than one sender to the limit per_client.\","
        "\"code\":\"ambiguous_key\",\"limit\":\"per_client\",\"violated-policies\":[\"per_client\"]}\n");
    expect_body(
        &(struct refusal){REFUSED_LIMITER_AWAY, violated[0], violated, 1, 1000000, {NULL, 0}},
        "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\","
        "\"title\":\"Temporarily reduced capacity\",\"status\":503,"
        "\"detail\":\"The request cannot be checked at the moment against the limit per_client.\","
        "\"code\":\"limiter_unavailable\",\"limit\":\"per_client\",\"violated-policies\":[\"per_client\"],"
        "\"retry_after_ms\":1000}\n");
}

Test(refusal, names_cannot_break_out_of_their_strings)
{
    const struct slice violated[] = {SLICE("a\"\\\n\x01z")};

    expect_body(&(struct refusal){REFUSED_COST, violated[0], violated, 1, 0, {NULL, 0}},
                "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
                "\"detail\":\"One such request costs more than all of the limit a\\\"\\\\\\u000a\\u0001z.\","
                "\"code\":\"cost_exceeds_limit\",\"limit\":\"a\\\"\\\\\\u000a\\u0001z\","
                "\"violated-policies\":[\"a\\\"\\\\\\u000a\\u0001z\"]}\n");
}

Test(ratelimit_fields, the_room_that_is_asked_for_takes_all_of_the_largest)
{
    enum { MOST = 16 };
    static const char name[] = "a-name-as-long-as-names-may-be-0123456789abcdefghijklmnopqrstuv-";
    struct ratelimit_item items[MOST];
    struct header fields[RATELIMIT_MAX_FIELDS];
    char buffer[8192];

    for (size_t i = 0; i < MOST; i++)
        items[i] = (struct ratelimit_item){.name = {name, sizeof(name) - 1},
                                           .limit = INT64_MAX,
                                           .window_us = INT64_MAX,
                                           .available = INT64_MAX,
                                           .reset_us = INT64_MAX};
    for (size_t count = 1; count <= MOST; count++) {
        size_t room = ratelimit_fields_room(items, count);

        cr_assert_leq(room, sizeof(buffer));
        cr_assert_eq(ratelimit_fields(items, count, 0, all, 0, buffer, room, fields), RATELIMIT_MAX_FIELDS);
    }
}

Test(ratelimit_fields, the_room_takes_those_that_name_no_time_too)
{
    struct ratelimit_item items[16];
    struct header fields[RATELIMIT_MAX_FIELDS];
    char buffer[8192];

    for (size_t i = 0; i < 16; i++)
        items[i] = (struct ratelimit_item){.name = {"n", 1}, .limit = INT64_MAX, .available = INT64_MAX};
    for (size_t count = 1; count <= 16; count++)
        cr_assert_eq(
            ratelimit_fields(items, count, 0, all, 0, buffer, ratelimit_fields_room(items, count), fields), 6,
            "%zu of them", count);
}

Test(ratelimit_fields, what_requests_hold_at_a_time_turns_at_no_time)
{
    static const struct ratelimit_item both[] = {
        {.name = {"inflight", 8}, .limit = 10, .available = 0},
        {.name = {"per_client", 10},
         .limit = 20,
         .window_us = 60 * SECOND,
         .available = 19,
         .reset_us = 41 * SECOND},
    };
    char buffer[256];
    struct header fields[RATELIMIT_MAX_FIELDS];
    size_t count = ratelimit_fields(both, 2, 0, all, 0, buffer, sizeof(buffer), fields);

    expect(fields, count, 0, "ratelimit-policy",
           "\"inflight\";q=10;qu=\"concurrent-requests\", \"per_client\";q=20;w=60");
    expect(fields, count, 1, "ratelimit", "\"inflight\";r=0, \"per_client\";r=19;t=41");
    expect(fields, count, 2, "ratelimit-limit", "10");
    expect(fields, count, 3, "ratelimit-remaining", "0");
    expect(fields, count, 4, "x-ratelimit-limit", "10");
    expect(fields, count, 5, "x-ratelimit-remaining", "0");
    cr_assert_eq(count, 6);
}

Test(refusal, of_slots_names_no_time)
{
    static const struct slice name = {"inflight", 8};
    struct refusal refusal = {.kind = REFUSED_SLOTS, .limit = name, .violated = &name, .violated_count = 1};
    char body[512];
    size_t len = refusal_body(&refusal, body, sizeof(body));

    cr_assert_eq(refusal_status(REFUSED_SLOTS), 429);
    cr_assert(slice_eq(slice_of(body, len),
                       SLICE("{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                             "\"title\":\"Quota exceeded\",\"status\":429,"
                             "\"detail\":\"Too many requests at a time for the limit inflight.\","
                             "\"code\":\"concurrency_limit_hit\",\"limit\":\"inflight\","
                             "\"violated-policies\":[\"inflight\"]}\n")),
              "%.*s", (int)len, body);
}
