#include "hop_headers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_FIELDS = 128 };

struct fields {
    struct header list[MAX_FIELDS];
    size_t count;
};

static void add(struct fields *fields, const char *name, const char *value)
{
    fields->list[fields->count++] = (struct header){slice_text(name), slice_text(value)};
}

static bool has(const struct fields *fields, const char *name)
{
    for (size_t i = 0; i < fields->count; i++)
        if (slice_eq(fields->list[i].name, slice_text(name)))
            return true;
    return false;
}

Test(hop_headers, what_belongs_to_one_connection_does_not_pass)
{
    static const char *const fixed[] = {
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
    };
    struct fields fields = {.count = 0};

    add(&fields, "accept", "a");
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        add(&fields, fixed[i], "x");
    add(&fields, "etag", "b");
    cr_assert(hop_headers_strip(fields.list, &fields.count));
    cr_assert_eq(fields.count, 2);
    cr_expect(slice_eq(fields.list[0].name, SLICE("accept")), "the order is kept");
    cr_expect(slice_eq(fields.list[1].name, SLICE("etag")));
}

Test(hop_headers, what_any_connection_field_names_does_not_pass)
{
    struct fields fields = {.count = 0};

    add(&fields, "x-a", "1");
    add(&fields, "connection", "close,, X-A ,x-b");
    add(&fields, "x-b", "2");
    add(&fields, "x-b", "3");
    add(&fields, "connection", "x-c");
    add(&fields, "x-c", "4");
    add(&fields, "x-d", "5");
    cr_assert(hop_headers_strip(fields.list, &fields.count));
    cr_assert_eq(fields.count, 1);
    cr_expect(has(&fields, "x-d"));
}

Test(hop_headers, nobody_can_have_the_word_of_a_proxy_before_us_removed)
{
    struct fields fields = {.count = 0};

    add(&fields, "connection", "x-forwarded-for, forwarded, x-forwarded-proto, x-forwarded-host");
    add(&fields, "x-forwarded-for", "192.0.2.1");
    add(&fields, "forwarded", "for=192.0.2.1");
    add(&fields, "x-forwarded-proto", "https");
    add(&fields, "x-forwarded-host", "a.test");
    cr_assert(hop_headers_strip(fields.list, &fields.count));
    cr_assert_eq(fields.count, 4);
}

Test(hop_headers, nobody_can_have_a_field_removed_that_keeps_answers_apart)
{
    static const char *const kept[] = {
        "cache-control", "cdn-cache-control", "pragma",       "expires", "age", "date",
        "vary",          "set-cookie",        "authorization"};

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        struct fields fields = {.count = 0};

        add(&fields, kept[i], "x");
        add(&fields, "connection", kept[i]);
        cr_assert(hop_headers_strip(fields.list, &fields.count));
        cr_expect(has(&fields, kept[i]), "%s", kept[i]);
        cr_expect_eq(fields.count, 1);
    }
}

Test(hop_headers, too_many_options_are_refused_and_change_nothing)
{
    struct fields fields = {.count = 0};

    for (int i = 0; i < HOP_MAX_OPTIONS; i++)
        add(&fields, "connection", "x");
    cr_expect(hop_headers_strip(fields.list, &fields.count), "as many as are allowed");
    cr_expect_eq(fields.count, 0);
    for (int i = 0; i <= HOP_MAX_OPTIONS; i++)
        add(&fields, "connection", "x");
    cr_expect(!hop_headers_strip(fields.list, &fields.count));
    cr_expect_eq(fields.count, HOP_MAX_OPTIONS + 1);
}

static struct forwarded forwarded_of(const struct forwarded_facts *facts, const struct fields *fields,
                                     char *room, size_t size)
{
    struct forwarded out = {.via = {NULL, 0}};
    size_t full = forwarded_write(facts, fields->list, fields->count, room, size, &out);

    cr_assert(full <= size);
    return out;
}

static bool is_text(struct slice s, const char *text)
{
    return slice_eq(s, slice_text(text));
}

Test(hop_headers, a_first_hop_tells_what_it_sees)
{
    struct forwarded_facts facts = {
        .peer_text = SLICE("192.0.2.1"), .authority = SLICE("a.test"), .via_name = SLICE("weir")};
    struct fields fields = {.count = 0};
    char room[256];
    struct forwarded out = forwarded_of(&facts, &fields, room, sizeof(room));

    cr_expect(is_text(out.x_forwarded_for, "192.0.2.1"));
    cr_expect(is_text(out.x_forwarded_proto, "http"));
    cr_expect(is_text(out.x_forwarded_host, "a.test"));
    cr_expect(is_text(out.via, "1.1 weir"));
}

Test(hop_headers, a_trusted_peer_is_believed_and_another_is_not)
{
    struct forwarded_facts facts = {.peer_text = SLICE("10.0.0.1"),
                                    .authority = SLICE("b.test"),
                                    .is_tls = false,
                                    .is_http10 = true,
                                    .peer_is_trusted = true,
                                    .via_name = SLICE("weir")};
    struct fields fields = {.count = 0};
    char room[256];
    struct forwarded out;

    add(&fields, "x-forwarded-for", "192.0.2.1, 192.0.2.2");
    add(&fields, "x-forwarded-for", "");
    add(&fields, "x-forwarded-for", "10.0.0.2");
    add(&fields, "x-forwarded-proto", "https");
    add(&fields, "x-forwarded-host", "a.test");
    add(&fields, "via", "2 edge");
    out = forwarded_of(&facts, &fields, room, sizeof(room));
    cr_expect(is_text(out.x_forwarded_for, "192.0.2.1, 192.0.2.2, 10.0.0.2, 10.0.0.1"));
    cr_expect(is_text(out.x_forwarded_proto, "https"));
    cr_expect(is_text(out.x_forwarded_host, "a.test"));
    cr_expect(is_text(out.via, "2 edge, 1.0 weir"));

    facts.peer_is_trusted = false;
    facts.is_tls = true;
    out = forwarded_of(&facts, &fields, room, sizeof(room));
    cr_expect(is_text(out.x_forwarded_for, "10.0.0.1"));
    cr_expect(is_text(out.x_forwarded_proto, "https"));
    cr_expect(is_text(out.x_forwarded_host, "b.test"));
    cr_expect(is_text(out.via, "2 edge, 1.0 weir"), "Via is for finding loops, whoever wrote it");
}

Test(hop_headers, an_untrusted_peers_forwarded_is_replaced_as_well)
{
    cr_expect(forwarded_replaces(SLICE("x-forwarded-for"), true));
    cr_expect(forwarded_replaces(SLICE("x-forwarded-proto"), true));
    cr_expect(forwarded_replaces(SLICE("x-forwarded-host"), true));
    cr_expect(forwarded_replaces(SLICE("via"), true));
    cr_expect(!forwarded_replaces(SLICE("forwarded"), true));
    cr_expect(forwarded_replaces(SLICE("forwarded"), false));
}

Test(hop_headers, a_client_cannot_speak_for_a_proxy)
{
    static const char *const words[] = {"x-forwarded-port", "x-forwarded-prefix", "x-forwarded-anything",
                                        "x_forwarded_port", "x-real-ip",          "x_real_ip",
                                        "x-original-url",   "x-rewrite-url",      "front-end-https"};
    static const char *const others[] = {"x-forwarded", "x-real-ip2", "x-real",
                                         "cookie",      "accept",     "x-api-key"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        cr_expect(is_proxys_word(slice_text(words[i])), "%s", words[i]);
        cr_expect(forwarded_replaces(slice_text(words[i]), false), "%s", words[i]);
        cr_expect(!forwarded_replaces(slice_text(words[i]), true), "%s", words[i]);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        cr_expect(!is_proxys_word(slice_text(others[i])), "%s", others[i]);
}

Test(hop_headers, only_a_trusted_peer_tells_a_scheme_or_a_host)
{
    struct fields fields = {.count = 0};

    add(&fields, "x-forwarded-proto", "");
    add(&fields, "x-forwarded-proto", "https");
    add(&fields, "x-forwarded-proto", "http");
    cr_expect(is_text(forwarded_told(fields.list, fields.count, SLICE("x-forwarded-proto"), true), "https"));
    cr_expect_eq(forwarded_told(fields.list, fields.count, SLICE("x-forwarded-proto"), false).len, 0);
    cr_expect_eq(forwarded_told(fields.list, fields.count, SLICE("x-forwarded-host"), true).len, 0);
}

Test(hop_headers, nothing_is_written_beyond_the_room_and_the_need_is_told)
{
    struct forwarded_facts facts = {.peer_text = SLICE("10.0.0.1"),
                                    .authority = SLICE("b.test"),
                                    .peer_is_trusted = true,
                                    .via_name = SLICE("weir")};
    struct fields fields = {.count = 0};
    struct forwarded out;
    size_t full;

    add(&fields, "x-forwarded-for", "192.0.2.1");
    add(&fields, "via", "1.1 edge");
    full = forwarded_write(&facts, fields.list, fields.count, NULL, 0, &out);
    for (size_t room = 0; room <= full; room++) {
        char *exact = malloc(room + 1);

        exact[room] = '!';
        out.via = SLICE("untouched");
        cr_expect_eq(forwarded_write(&facts, fields.list, fields.count, exact, room, &out), full);
        cr_expect_eq(is_text(out.via, "untouched"), room < full);
        cr_expect_eq(exact[room], '!');
        free(exact);
    }
}

Test(hop_headers, an_answers_via_names_us_last)
{
    struct fields fields = {.count = 0};
    char room[64];
    size_t len;

    add(&fields, "via", "1.1 origin");
    len = via_write(fields.list, fields.count, false, SLICE("weir"), room, sizeof(room));
    cr_expect(is_text(slice_of(room, len), "1.1 origin, 1.1 weir"));
}
