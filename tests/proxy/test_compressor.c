/* Compressor: the packed form of a body that arrives, at nobody's expense, however the load goes. */
#include "compressor.h"
#include "fake_origin.h"
#include "test_site.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(compressor, .timeout = 20);

enum { LINE_BYTES = 64 };

static struct loop *loop;
static struct site *site;
static struct stream *stream;
static struct compressor *compressor;
static int endings;
static bool frees_itself, is_inside;

static void on_head(void *arg)
{
    (void)arg;
    stream_keep(stream, 64 << 20);
}

static const struct stream_owner OWNER = {.on_head = on_head};

static void on_ended(void *arg)
{
    cr_assert_eq(arg, &endings);
    cr_assert_not(is_inside, "never inside what the stream is told");
    endings++;
    if (frees_itself)
        compressor_free(&compressor);
}

static void start(void)
{
    struct origin_request request = {
        .method = SLICE("GET"), .target = SLICE("/"), .authority = SLICE("localhost")};

    loop = loop_new();
    site = test_site_new(loop);
    stream = stream_start(site, &site_settings(site)->upstreams[0], &request, &OWNER, NULL);
    fetch_head(0, 200, -1, NULL, 0);
    compressor = compressor_new(loop, stream, on_ended, &endings);
}

static void stop(void)
{
    compressor_free(&compressor);
    stream_disown(&stream, true);
    site_release(&site);
    loop_turn(loop, 0);
    loop_turn(loop, 0);
    cr_assert_eq(fake_origin.pools, 0);
    loop_free(loop);
}

/* Line n of every body: much the same again and again. */
static void line_at(size_t n, char out[LINE_BYTES])
{
    for (size_t i = 0; i < LINE_BYTES; i++)
        out[i] = (char)(i < 8 ? 'a' + (n >> (2 * i)) % 4 : 'x');
}

static void send_lines(size_t from, size_t to)
{
    for (size_t n = from; n < to; n++) {
        char line[LINE_BYTES];

        line_at(n, line);
        is_inside = true;
        fetch_body(0, slice_of(line, sizeof(line)));
        is_inside = false;
    }
}

static void send_end(enum fault fault)
{
    is_inside = true;
    fetch_end(0, fault);
    is_inside = false;
}

static void turn_until_ended(void)
{
    for (int turns = 0; endings == 0; turns++) {
        cr_assert_lt(turns, 10000, "it ends");
        loop_turn(loop, 10);
    }
}

static void expect_lines(const struct packer *packed, size_t lines)
{
    size_t count, made, at = 0;
    struct block *const *blocks = packer_blocks(packed, &count);
    struct unpacker *unpacker = unpacker_new(blocks, count, (int64_t)lines * LINE_BYTES);
    char got[LINE_BYTES], want[LINE_BYTES];
    enum unpacked how;

    cr_assert_eq(packer_plain_bytes(packed), (int64_t)lines * LINE_BYTES);
    do {
        how = unpacker_next(unpacker, got, LINE_BYTES, &made);
        line_at(at++, want);
        cr_assert(how != UNPACKED_BROKEN && made == LINE_BYTES && memcmp(got, want, LINE_BYTES) == 0);
    } while (how == UNPACKED_SOME);
    cr_assert_eq(at, lines);
    unpacker_free(&unpacker);
}

Test(compressor, packs_what_arrives_whenever_it_does)
{
    start();
    send_lines(0, 100);
    loop_turn(loop, 0);
    loop_turn(loop, 0);
    send_lines(100, 5000);
    loop_turn(loop, 0);
    cr_assert_eq(endings, 0);
    cr_assert_null(compressor_result(compressor), "it is not over");
    send_end(FAULT_NONE);
    turn_until_ended();
    cr_assert(compressor_has_ended(compressor));
    expect_lines(compressor_result(compressor), 5000);
    cr_assert_eq(stream->got_bytes, 5000 * LINE_BYTES, "the stream has all of it, too");
    stop();
    cr_assert_eq(endings, 1);
}

Test(compressor, a_body_that_was_there_at_once_takes_several_turns)
{
    int turns = 0;

    start();
    send_lines(0, 20000);
    send_end(FAULT_NONE);
    for (; endings == 0; turns++)
        loop_turn(loop, 10);
    cr_assert_geq(turns, 20000 * LINE_BYTES / (64 << 10), "a slice in each");
    expect_lines(compressor_result(compressor), 20000);
    stop();
}

Test(compressor, what_breaks_off_has_no_result)
{
    start();
    send_lines(0, 5000);
    send_end(FAULT_ORIGIN_BROKE);
    turn_until_ended();
    cr_assert_null(compressor_result(compressor));
    stop();
}

Test(compressor, what_is_small_or_does_not_become_smaller_has_none)
{
    static const struct {
        size_t bytes;
        bool is_random, has_result;
    } rows[] = {{0, false, false}, {511, false, false}, {512, false, true}, {100000, true, false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t seed = 0x9E3779B97F4A7C15u;

        memset(&fake_origin, 0, sizeof(fake_origin));
        endings = 0;
        start();
        for (size_t n = 0; n < rows[i].bytes; n++) {
            char byte = 'x';

            if (rows[i].is_random) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                byte = (char)(unsigned char)(seed >> 33 & 255);
            }
            fetch_body(0, slice_of(&byte, 1));
        }
        send_end(FAULT_NONE);
        turn_until_ended();
        cr_expect_eq(compressor_result(compressor) != NULL, rows[i].has_result, "%zu", rows[i].bytes);
        stop();
    }
}

Test(compressor, may_be_freed_when_it_ends)
{
    frees_itself = true;
    start();
    send_lines(0, 5000);
    send_end(FAULT_NONE);
    turn_until_ended();
    cr_assert_null(compressor);
    stop();
}

Test(compressor, may_be_freed_at_any_time_before)
{
    for (int turns = 0; turns < 4; turns++) {
        memset(&fake_origin, 0, sizeof(fake_origin));
        start();
        send_lines(0, 5000);
        for (int i = 0; i < turns; i++)
            loop_turn(loop, 0);
        compressor_free(&compressor);
        send_lines(5000, 5100);
        send_end(FAULT_NONE);
        loop_turn(loop, 0);
        cr_assert_eq(endings, 0);
        stop();
    }
}
