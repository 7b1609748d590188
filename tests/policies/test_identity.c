/* One client, one identity, however its address is spelled and whatever it writes into its headers. */
#include "identity.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static struct address address_of(const char *text)
{
    struct address address;

    cr_assert(address_parse(slice_text(text), &address), "%s is an address", text);
    return address;
}

static void expect_text(struct address address, const char *want, const char *why)
{
    char text[46];
    size_t len = address_write(&address, text);

    cr_assert(slice_eq(slice_of(text, len), slice_text(want)), "%s: %s instead of %s", why, text, want);
}

Test(identity, all_spellings_of_an_address_are_one)
{
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1"},
        {"192.0.2.1:8080", "192.0.2.1"},
        {"0.0.0.0", "0.0.0.0"},
        {"255.255.255.255:65535", "255.255.255.255"},
        {"::ffff:192.0.2.1", "192.0.2.1"},
        {"::FFFF:c000:201", "192.0.2.1"},
        {"[::ffff:192.0.2.1]:443", "192.0.2.1"},
        {"0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1"},
        {"2001:db8::1", "2001:db8::1"},
        {"2001:DB8::1", "2001:db8::1"},
        {"2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"},
        {"2001:db8:0:0:0::1", "2001:db8::1"},
        {"[2001:db8::1]", "2001:db8::1"},
        {"[2001:db8::1]:80", "2001:db8::1"},
        {"2001:db8::1:80", "2001:db8::1:80"}, /* its last group, not a port */
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
        {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"}, /* one zero group is not shortened */
        {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},          /* the longest run */
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},    /* the first of equals */
        {"64:ff9b::192.0.2.1", "64:ff9b::c000:201"},
        {"::192.0.2.1", "::c000:201"}, /* not the mapped form: another address */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        expect_text(address_of(rows[i].text), rows[i].canonical, rows[i].text);
}

Test(identity, what_has_two_readings_or_none_is_no_address)
{
    static const char *const rows[] = {
        "",
        " ",
        "localhost",
        "unknown",
        "_hidden",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "01.2.3.4",
        "1.2.3.010",
        "0x1.2.3.4",
        "1.2.3.-4",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1..2.3",
        "1.2.3.",
        ".1.2.3",
        "16909060",
        "1.2.3.4:",
        "1.2.3.4:65536",
        "1.2.3.4:x",
        "1.2.3.4:80:80",
        "1.2.3.4:080",
        "1.2.3.4/8",
        "[1.2.3.4]",
        "[1.2.3.4]:80",
        ":",
        ":::",
        "1:2",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4::5:6:7:8",
        "1::2::3",
        "12345::",
        "g::",
        "::1%eth0",
        "fe80::1%1",
        "[fe80::1%25eth0]",
        "[::1",
        "::1]",
        "[::1]80",
        "[::1]:",
        "[::1]:99999",
        "[[::1]]",
        "[]",
        "::1.2.3",
        "::1.2.3.4.5",
        "1.2.3.4::",
        "::1.2.3.4:5",
        "1:2:3:4:5:6:7:1.2.3.4",
        ":1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:",
        "::ffff:1.2.3.04",
    };
    struct address address;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_assert_not(address_parse(slice_text(rows[i]), &address), "%s", rows[i]);
    cr_assert_not(address_parse(slice_of("1.2.3.4\0", 8), &address), "a NUL ends nothing");
    cr_assert_not(address_parse(slice_of(NULL, 0), &address));
}

Test(identity, writing_and_reading_again_changes_nothing)
{
    unsigned seed = 1;

    for (int i = 0; i < 20000; i++) {
        struct address address, again;
        char text[46];
        for (int b = 0; b < 16; b++) { /* many zeros, for the runs */
            seed = seed * 1103515245 + 12345;
            address.bytes[b] = (unsigned char)((seed >> 16) % 3 == 0 ? seed >> 20 : 0);
        }
        size_t len = address_write(&address, text);
        cr_assert_leq(len, 45);
        cr_assert(address_parse(slice_of(text, len), &again), "%s", text);
        cr_assert_arr_eq(address.bytes, again.bytes, 16, "%s", text);
    }
}

Test(identity, an_address_of_random_bytes_never_reads_beyond_them)
{
    static const char alphabet[] = "0123456789abcdef:::...[]%/_\"x";
    unsigned seed = 7;

    for (int i = 0; i < 50000; i++) {
        size_t len = (seed >> 8) % 24;
        char *text = malloc(len + 1); /* its own, so that a sanitizer sees a byte too many */
        struct address address;
        struct address_range range;
        for (size_t at = 0; at < len; at++) {
            seed = seed * 1103515245 + 12345;
            text[at] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
        }
        seed = seed * 1103515245 + 12345;
        struct header header = {SLICE("forwarded"), {text, len}};
        address_parse(slice_of(text, len), &address);
        address_range_parse(slice_of(text, len), &range);
        struct address peer = address_of("10.0.0.1");
        struct address_range trusted = {peer, 128};
        client_address(&peer, &trusted, 1, &header, 1);
        free(text);
    }
}

Test(identity, ranges_know_their_members)
{
    static const struct {
        const char *range, *address;
        bool is_in;
    } rows[] = {
        {"10.0.0.0/8", "10.255.0.1", true},
        {"10.0.0.0/8", "11.0.0.1", false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", true}, /* a mapped address is the IPv4 address */
        {"10.0.0.0/8", "a00::1", false},
        {"0.0.0.0/0", "203.0.113.9", true},
        {"0.0.0.0/0", "2001:db8::1", false},
        {"::/0", "203.0.113.9", true},
        {"192.0.2.7", "192.0.2.7", true},
        {"192.0.2.7", "192.0.2.6", false},
        {"192.0.2.0/31", "192.0.2.1", true},
        {"::1", "::1", true},
        {"2001:db8::/33", "2001:db8:7fff::1", true},
        {"2001:db8::/33", "2001:db8:8000::1", false},
        {"::ffff:10.0.0.0/104", "10.9.9.9", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct address_range range;
        struct address address = address_of(rows[i].address);
        cr_assert(address_range_parse(slice_text(rows[i].range), &range), "%s", rows[i].range);
        cr_assert_eq(address_is_in(&address, &range, 1), rows[i].is_in, "%s in %s", rows[i].address,
                     rows[i].range);
    }
}

Test(identity, a_range_that_says_two_things_is_refused)
{
    static const char *const rows[] = {"",
                                       "/8",
                                       "10.0.0.0/",
                                       "10.0.0.1/8",
                                       "10.0.0.0/33",
                                       "10.0.0.0/-1",
                                       "10.0.0.0/08",
                                       "10.0.0.0/8/8",
                                       "10.0.0.0:80",
                                       "2001:db8::1/64",
                                       "::/129",
                                       "[::1]",
                                       "[::]/0",
                                       "::/x",
                                       "localhost",
                                       "fe80::1%eth0/64"};
    struct address_range range;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_assert_not(address_range_parse(slice_text(rows[i]), &range), "%s", rows[i]);
}

Test(identity, a_network_of_addresses_is_one_client)
{
    struct address first = address_of("2001:db8:1:2::1"),
                   last = address_of("2001:db8:1:2:ffff:ffff:ffff:ffff");
    struct address v4 = address_of("192.0.2.77");

    expect_text(address_group(&first, 64), "2001:db8:1:2::", "a /64");
    expect_text(address_group(&last, 64), "2001:db8:1:2::", "its other end");
    expect_text(address_group(&last, 49), "2001:db8:1::", "within a byte");
    expect_text(address_group(&last, 60), "2001:db8:1::", "within a digit");
    expect_text(address_group(&last, 128), "2001:db8:1:2:ffff:ffff:ffff:ffff", "alone");
    expect_text(address_group(&last, 0), "::", "everybody");
    expect_text(address_group(&v4, 8), "192.0.2.77", "IPv4 is not grouped");
    cr_assert(address_is_v4(&v4));
    cr_assert_not(address_is_v4(&first));
}

/* ---- behind proxies ---- */

struct hop_case {
    const char *why, *peer;
    const char *x_forwarded_for[2], *forwarded[2]; /* lines, in order */
    const char *want;
};

static void expect_client(const struct hop_case *row)
{
    static const char *const trusted_texts[] = {"10.0.0.0/8", "fd00::/8"};
    struct address_range trusted[2];
    struct header headers[5] = {{SLICE("host"), SLICE("1.1.1.1")}};
    size_t count = 1;
    struct address peer = address_of(row->peer);

    for (size_t i = 0; i < 2; i++)
        cr_assert(address_range_parse(slice_text(trusted_texts[i]), &trusted[i]));
    for (size_t i = 0; i < 2; i++) {
        if (row->x_forwarded_for[i] != NULL)
            headers[count++] = (struct header){SLICE("x-forwarded-for"), slice_text(row->x_forwarded_for[i])};
        if (row->forwarded[i] != NULL)
            headers[count++] = (struct header){SLICE("forwarded"), slice_text(row->forwarded[i])};
    }
    expect_text(client_address(&peer, trusted, 2, headers, count), row->want, row->why);
}

Test(identity, x_forwarded_for_counts_from_the_right_and_from_trusted_peers_only)
{
    static const struct hop_case rows[] = {
        {"a direct client may claim what it likes", "203.0.113.5", {"1.2.3.4"}, {NULL}, "203.0.113.5"},
        {"no header", "10.0.0.1", {NULL}, {NULL}, "10.0.0.1"},
        {"one hop", "10.0.0.1", {"203.0.113.5"}, {NULL}, "203.0.113.5"},
        {"what stands left of the first untrusted is its own claim",
         "10.0.0.1",
         {"1.2.3.4, 203.0.113.5"},
         {NULL},
         "203.0.113.5"},
        {"through a chain", "10.0.0.1", {"1.2.3.4, 203.0.113.5, 10.2.2.2,fd00::7"}, {NULL}, "203.0.113.5"},
        {"trusted to the end: the first of them", "10.0.0.1", {"10.3.3.3, 10.2.2.2"}, {NULL}, "10.3.3.3"},
        {"several lines are one list",
         "10.0.0.1",
         {"1.2.3.4, 203.0.113.5", "10.2.2.2"},
         {NULL},
         "203.0.113.5"},
        {"the last line comes first", "10.0.0.1", {"1.2.3.4", "203.0.113.5"}, {NULL}, "203.0.113.5"},
        {"garbage ends the walk at the last good one",
         "10.0.0.1",
         {"1.2.3.4, bogus, 10.2.2.2"},
         {NULL},
         "10.2.2.2"},
        {"and at the peer", "10.0.0.1", {"1.2.3.4, 999.1.1.1"}, {NULL}, "10.0.0.1"},
        {"also across lines", "10.0.0.1", {"1.2.3.4", "bogus"}, {NULL}, "10.0.0.1"},
        {"unknown", "10.0.0.1", {"1.2.3.4, unknown"}, {NULL}, "10.0.0.1"},
        {"empty elements are nothing", "10.0.0.1", {", 203.0.113.5 ,, ,"}, {NULL}, "203.0.113.5"},
        {"nothing but commas", "10.0.0.1", {",,,"}, {NULL}, "10.0.0.1"},
        {"ports", "10.0.0.1", {"203.0.113.5:4711, 10.2.2.2:1"}, {NULL}, "203.0.113.5"},
        {"brackets", "10.0.0.1", {"[2001:db8::5]:4711"}, {NULL}, "2001:db8::5"},
        {"another spelling of a trusted address is trusted",
         "::ffff:10.0.0.1",
         {"203.0.113.5, ::ffff:10.2.2.2"},
         {NULL},
         "203.0.113.5"},
        {"a quote is no address", "10.0.0.1", {"\"203.0.113.5\""}, {NULL}, "10.0.0.1"},
        {"zone ids name nobody elsewhere", "10.0.0.1", {"fe80::1%eth0"}, {NULL}, "10.0.0.1"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        expect_client(&rows[i]);
}

Test(identity, forwarded_is_read_where_x_forwarded_for_is_absent)
{
    static const struct hop_case rows[] = {
        {"a direct client", "203.0.113.5", {NULL}, {"for=1.2.3.4"}, "203.0.113.5"},
        {"a token", "10.0.0.1", {NULL}, {"for=203.0.113.5"}, "203.0.113.5"},
        {"quoted, with a port", "10.0.0.1", {NULL}, {"for=\"203.0.113.5:80\""}, "203.0.113.5"},
        {"IPv6 in quotes and brackets", "10.0.0.1", {NULL}, {"for=\"[2001:db8::5]:4711\""}, "2001:db8::5"},
        {"a hidden port", "10.0.0.1", {NULL}, {"for=\"[2001:db8::5]:_x1\""}, "2001:db8::5"},
        {"a hidden port of IPv4", "10.0.0.1", {NULL}, {"for=\"203.0.113.5:_x1\""}, "203.0.113.5"},
        {"names in any case, among others",
         "10.0.0.1",
         {NULL},
         {"By=10.0.0.1 ; FOR=203.0.113.5;proto=https"},
         "203.0.113.5"},
        {"from the right",
         "10.0.0.1",
         {NULL},
         {"for=1.2.3.4, for=203.0.113.5;proto=http, for=10.2.2.2"},
         "203.0.113.5"},
        {"several lines", "10.0.0.1", {NULL}, {"for=203.0.113.5", "for=10.2.2.2"}, "203.0.113.5"},
        {"a comma and a semicolon in quotes",
         "10.0.0.1",
         {NULL},
         {"for=203.0.113.5;by=\"a,for=1.2.3.4;\""},
         "203.0.113.5"},
        {"escaped quotes", "10.0.0.1", {NULL}, {"for=203.0.113.5;by=\"a\\\",for=\\\\\""}, "203.0.113.5"},
        {"escapes in the address", "10.0.0.1", {NULL}, {"for=\"203.0.\\113.5\""}, "203.0.113.5"},
        {"an unfinished quote cannot hide a proxy's word",
         "10.0.0.1",
         {NULL},
         {"for=\"1.2.3.4, for=203.0.113.5"},
         "203.0.113.5"},
        {"nor across lines", "10.0.0.1", {NULL}, {"for=\"1.2.3.4", "for=203.0.113.5"}, "203.0.113.5"},
        {"hidden", "10.0.0.1", {NULL}, {"for=1.2.3.4, for=_secret, for=10.2.2.2"}, "10.2.2.2"},
        {"unknown", "10.0.0.1", {NULL}, {"for=unknown"}, "10.0.0.1"},
        {"no for", "10.0.0.1", {NULL}, {"for=1.2.3.4, proto=https"}, "10.0.0.1"},
        {"two of them", "10.0.0.1", {NULL}, {"for=1.2.3.4;for=5.6.7.8"}, "10.0.0.1"},
        {"no value", "10.0.0.1", {NULL}, {"for"}, "10.0.0.1"},
        {"an empty value", "10.0.0.1", {NULL}, {"for=\"\""}, "10.0.0.1"},
        {"a quote in the middle", "10.0.0.1", {NULL}, {"for=1.2\"3.4\""}, "10.0.0.1"},
        {"never mixed with X-Forwarded-For", "10.0.0.1", {"203.0.113.5"}, {"for=1.2.3.4"}, "203.0.113.5"},
        {"not even where that is garbage", "10.0.0.1", {"bogus"}, {"for=1.2.3.4"}, "10.0.0.1"},
        {"longer than any address",
         "10.0.0.1",
         {NULL},
         {"for=\"00000000000000000000000000000000000000000000000000000000000000000000000000001\""},
         "10.0.0.1"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        expect_client(&rows[i]);
}

Test(identity, a_hostile_header_costs_no_more_than_its_length)
{
    static char line[1 << 20];
    struct address peer = address_of("10.0.0.1");
    struct address_range trusted;
    struct header header = {SLICE("forwarded"), {line, sizeof(line)}};

    cr_assert(address_range_parse(SLICE("10.0.0.0/8"), &trusted));
    for (const char *c = "\\\",;=[:"; *c != '\0'; c++) { /* quadratic work on a megabyte would not end */
        memset(line, *c, sizeof(line));
        client_address(&peer, &trusted, 1, &header, 1);
        memcpy(line + sizeof(line) - 2, "\"x", 2);
        client_address(&peer, &trusted, 1, &header, 1);
    }
}
