/* Stream: one answer read by many at their own pace, in bounded memory, to its true end. */
#include "fake_origin.h"
#include "loop.h"
#include "stream.h"
#include "test_site.h"

#include <criterion/criterion.h>

TestSuite(stream, .timeout = 20);

enum { CHUNK = 16 << 10, BOUND = 1 << 20, CAREFUL_READERS = 3 };

static struct loop *loop;
static struct site *site;
static struct stream *stream;
static int heads, overflows, ends;

/* Byte n of every body. */
static char byte_at(int64_t n)
{
    return (char)('a' + n % 23);
}

static void on_head(void *arg)
{
    (void)arg;
    heads++;
}

static void on_interim(void *arg, const struct origin_response *interim)
{
    (void)arg;
    (void)interim;
}

static void on_overflow(void *arg)
{
    (void)arg;
    overflows++;
}

static void on_end(void *arg)
{
    (void)arg;
    ends++;
}

static const struct stream_owner OWNER = {on_head, on_overflow, on_end, on_interim};
static const struct stream_owner SILENT_OWNER = {.on_head = NULL};

static void start(void)
{
    struct origin_request request = {
        .method = SLICE("GET"), .target = SLICE("/"), .authority = SLICE("localhost")};

    loop = loop_new();
    site = test_site_new(loop);
    stream = stream_start(site, &site_settings(site)->upstreams[0], &request, &OWNER, NULL);
}

static void stop(void)
{
    stream_disown(&stream, true);
    site_release(&site);
    loop_turn(loop, 0);
    cr_assert_eq(fake_origin.pools, 0, "each stream gave its site back");
    loop_free(loop);
}

static void send_bytes(size_t len, int64_t *sent)
{
    char bytes[CHUNK];

    while (len > 0) {
        size_t some = len < sizeof(bytes) ? len : sizeof(bytes);

        for (size_t i = 0; i < some; i++)
            bytes[i] = byte_at(*sent + (int64_t)i);
        *sent += (int64_t)some;
        len -= some;
        fetch_body(0, slice_of(bytes, some));
    }
}

/* ---- readers ---- */

struct client {
    struct stream_reader reader;
    int64_t got;
    enum client_piece ending;
    int wakes;
    bool reads_when_woken;
    struct client *leaves_when_woken; /* itself, or another */
    struct client *joins_when_woken;
};

static size_t client_read(struct client *client)
{
    struct slice pieces[4];
    size_t count = stream_read(&client->reader, pieces, 4, &client->ending);

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < pieces[i].len; j++)
            cr_assert_eq(pieces[i].base[j], byte_at(client->got++));
    return count;
}

static void client_read_all(struct client *client)
{
    while (client_read(client) > 0 && client->ending == CLIENT_MORE)
        ;
}

static void on_more(void *arg)
{
    struct client *client = arg;

    client->wakes++;
    if (client->joins_when_woken != NULL && !client->joins_when_woken->reader.is_joined)
        cr_assert(stream_join(client->reader.stream, &client->joins_when_woken->reader, on_more,
                              client->joins_when_woken));
    if (client->leaves_when_woken != NULL) {
        stream_leave(&client->leaves_when_woken->reader);
        if (client->leaves_when_woken == client)
            return;
    }
    if (client->reads_when_woken)
        client_read_all(client);
}

static void join(struct client *client)
{
    cr_assert(stream_join(stream, &client->reader, on_more, client));
}

/* ---- promises ---- */

Test(stream, every_reader_gets_every_byte_in_order_and_the_end)
{
    struct client clients[CAREFUL_READERS] = {
        {.reads_when_woken = true}, {.reads_when_woken = true}, {.reads_when_woken = true}};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, -1, NULL, 0);
    for (size_t i = 0; i < CAREFUL_READERS; i++) {
        join(&clients[i]);
        cr_assert_eq(client_read(&clients[i]), 0);
        cr_assert_eq(clients[i].ending, CLIENT_MORE);
    }
    send_bytes(300000, &sent);
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(heads, 1);
    cr_assert_eq(ends, 1);
    for (size_t i = 0; i < CAREFUL_READERS; i++) {
        cr_assert_eq(clients[i].got, 300000);
        cr_assert_eq(clients[i].ending, CLIENT_LAST);
        stream_leave(&clients[i].reader);
    }
    stop();
}

Test(stream, an_upstream_that_breaks_is_seen_as_broken_by_every_reader)
{
    struct client quick = {.reads_when_woken = true}, slow = {0};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, 100, NULL, 0);
    join(&quick), join(&slow);
    client_read(&quick);
    send_bytes(50, &sent);
    fetch_end(0, FAULT_ORIGIN_BROKE);
    cr_assert_eq(quick.ending, CLIENT_BROKEN);
    client_read_all(&slow);
    cr_assert_eq(slow.got, 50, "what came is passed on");
    cr_assert_eq(slow.ending, CLIENT_BROKEN, "and not as if it were all");
    stream_leave(&quick.reader), stream_leave(&slow.reader);
    stop();
}

Test(stream, the_last_bytes_may_come_with_the_end)
{
    struct client client = {0};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, 5, NULL, 0);
    join(&client);
    send_bytes(5, &sent);
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(client_read(&client), 1);
    cr_assert_eq(client.ending, CLIENT_LAST, "one piece and its end: one write");
    cr_assert_eq(client.wakes, 0, "who never waited is not woken");
    stream_leave(&client.reader);
    stop();
}

Test(stream, a_body_of_nothing_ends_at_once)
{
    struct client client = {0};

    start();
    fetch_head(0, 204, 0, NULL, 0);
    join(&client);
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(client_read(&client), 0);
    cr_assert_eq(client.ending, CLIENT_LAST);
    stream_leave(&client.reader);
    stop();
}

Test(stream, an_upstream_waits_for_the_slowest_reader_and_memory_stays_bounded)
{
    struct client quick = {.reads_when_woken = true}, slow = {0};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, -1, NULL, 0);
    join(&quick), join(&slow);
    client_read(&quick);
    for (int round = 0; round < 20; round++) {
        while (!fake_origin.fetches[0]->is_paused)
            send_bytes(CHUNK, &sent);
        cr_assert_leq(sent - slow.got, BOUND, "no more than the bound ahead of the slowest");
        cr_assert_eq(quick.got, sent);
        while (fake_origin.fetches[0]->is_paused)
            cr_assert_gt(client_read(&slow), 0);
    }
    cr_assert_geq(fake_origin.resumes, 20);
    cr_assert_gt(stream->freed_bytes, 0, "what both have passed is freed");
    cr_assert(!stream_join(stream, &(struct stream_reader){0}, on_more, NULL), "too late to join");
    stream_leave(&slow.reader);
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(quick.got, sent);
    stream_leave(&quick.reader);
    stop();
}

Test(stream, an_endless_answer_costs_no_memory_for_what_has_passed)
{
    struct client quick = {.reads_when_woken = true}, slow = {0};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, -1, NULL, 0);
    join(&quick), join(&slow);
    client_read(&quick);
    while (sent < 64 << 20) {
        send_bytes(CHUNK, &sent);
        if (fake_origin.fetches[0]->is_paused)
            client_read_all(&slow);
    }
    client_read_all(&slow);
    cr_assert_eq(slow.got, sent, "nothing is lost or told twice");
    cr_assert_eq(quick.got, sent);
    cr_assert_lt(stream->block_room, 200, "not one place for each of a thousand blocks");
    stream_leave(&slow.reader), stream_leave(&quick.reader);
    stop();
}

Test(stream, a_slow_reader_that_leaves_lets_the_others_go_on)
{
    struct client quick = {.reads_when_woken = true}, slow = {0};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, -1, NULL, 0);
    join(&quick), join(&slow);
    client_read(&quick);
    while (!fake_origin.fetches[0]->is_paused)
        send_bytes(CHUNK, &sent);
    stream_leave(&slow.reader);
    cr_assert(!fake_origin.fetches[0]->is_paused);
    stream_leave(&quick.reader);
    stop();
}

/* Once the bytes that came while nobody read yet were freed, and the answer to a change was lost while its
 * invalidation was under way. */
Test(stream, what_comes_before_the_first_reader_waits_for_it_within_the_same_bound)
{
    struct client client = {.reads_when_woken = true};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, -1, NULL, 0);
    while (!fake_origin.fetches[0]->is_paused) {
        send_bytes(CHUNK, &sent);
        cr_assert_leq(sent, BOUND);
    }
    join(&client);
    client_read_all(&client);
    cr_assert_eq(client.got, sent);
    cr_assert(!fake_origin.fetches[0]->is_paused);
    send_bytes(CHUNK, &sent);
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(client.got, sent);
    cr_assert_eq(client.ending, CLIENT_LAST);
    stream_leave(&client.reader);
    stop();
}

Test(stream, kept_it_can_be_joined_at_any_time_and_never_pauses)
{
    struct client first = {.reads_when_woken = true}, late = {0};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, -1, NULL, 0);
    stream_keep(stream, 4 << 20);
    join(&first);
    client_read(&first);
    send_bytes(2 << 20, &sent);
    cr_assert_eq(fake_origin.pauses, 0);
    join(&late);
    fetch_end(0, FAULT_NONE);
    client_read_all(&late);
    cr_assert_eq(late.got, sent);
    cr_assert_eq(late.ending, CLIENT_LAST);
    int64_t in_blocks = 0;
    for (size_t i = 0; i < stream->block_count; i++)
        in_blocks += (int64_t)stream->blocks[i]->len;
    cr_assert_eq(in_blocks, sent, "all of it can be stored");
    stream_leave(&first.reader), stream_leave(&late.reader);
    stop();
}

Test(stream, a_block_is_no_larger_than_what_is_still_to_come)
{
    int64_t sent = 0;

    start();
    fetch_head(0, 200, 100, NULL, 0);
    stream_keep(stream, 1000);
    send_bytes(100, &sent);
    cr_assert_eq(stream->block_count, 1);
    cr_assert_eq(stream->blocks[0]->room, 100);
    stop();
}

Test(stream, more_than_may_be_kept_is_said_once_and_then_flows_as_if_never_kept)
{
    struct client client = {.reads_when_woken = true};
    int64_t sent = 0;

    start();
    fetch_head(0, 200, -1, NULL, 0);
    stream_keep(stream, 100000);
    join(&client);
    client_read(&client);
    send_bytes(100000, &sent);
    cr_assert_eq(overflows, 0, "the bound itself is allowed");
    send_bytes(900000, &sent);
    cr_assert_eq(overflows, 1);
    cr_assert_eq(client.got, sent);
    cr_assert_gt(stream->freed_bytes, 0);
    stream_leave(&client.reader);
    stop();
}

Test(stream, what_says_it_is_too_large_is_not_kept_at_all)
{
    start();
    fetch_head(0, 200, 1001, NULL, 0);
    stream_keep(stream, 1000);
    cr_assert(!stream->is_kept);
    cr_assert_eq(overflows, 0);
    stop();
}

Test(stream, without_an_owner_the_last_reader_to_leave_ends_it)
{
    struct client a = {.reads_when_woken = true}, b = {0};

    start();
    fetch_head(0, 200, -1, NULL, 0);
    join(&a), join(&b);
    client_read(&a);
    stream_disown(&stream, false);
    stream_leave(&a.reader);
    cr_assert_eq(fake_origin.cancelled, 0);
    stream_leave(&b.reader);
    cr_assert_eq(fake_origin.cancelled, 1);
    stream_leave(&b.reader); /* harmless twice */
    stop();
}

Test(stream, without_owner_and_readers_it_ends)
{
    start();
    stream_disown(&stream, false);
    cr_assert_eq(fake_origin.cancelled, 1);
    stop();
}

/* Once the first to leave while others were still to be told looked like the last, and broke their answers.
 */
Test(stream, a_reader_that_leaves_when_told_ends_nothing_for_those_still_to_be_told)
{
    struct client a = {0}, b = {.reads_when_woken = true};
    int64_t sent = 0;

    a.leaves_when_woken = &a;
    start();
    fetch_head(0, 200, -1, NULL, 0);
    join(&a), join(&b);
    client_read(&a), client_read(&b);
    stream_disown(&stream, false);
    send_bytes(10, &sent);
    cr_assert_eq(fake_origin.cancelled, 0);
    cr_assert_eq(b.got, 10);
    cr_assert_eq(b.ending, CLIENT_MORE);
    b.leaves_when_woken = &b;
    send_bytes(10, &sent); /* the last one leaves inside the callback */
    cr_assert_eq(fake_origin.cancelled, 1);
    stop();
}

Test(stream, a_reader_may_end_and_begin_others_when_told)
{
    struct client a = {.reads_when_woken = true}, b = {.reads_when_woken = true}, c = {0};
    int64_t sent = 0;

    a.leaves_when_woken = &b;
    a.joins_when_woken = &c;
    start();
    fetch_head(0, 200, -1, NULL, 0);
    stream_keep(stream, 1000);
    join(&a), join(&b);
    client_read(&a), client_read(&b);
    send_bytes(10, &sent);
    cr_assert_eq(b.wakes, 0);
    cr_assert_eq(a.got, 10);
    client_read_all(&c);
    cr_assert_eq(c.got, 10);
    stream_leave(&a.reader), stream_leave(&c.reader);
    stop();
}

Test(stream, a_reader_may_leave_when_told_of_the_end)
{
    struct client a = {0};

    a.leaves_when_woken = &a;
    start();
    fetch_head(0, 200, -1, NULL, 0);
    join(&a);
    client_read(&a);
    stream_disown(&stream, false);
    fetch_end(0, FAULT_NONE); /* that was its last reference */
    cr_assert_eq(a.wakes, 1);
    stop();
}

Test(stream, its_head_is_its_own_copy)
{
    char name[] = "etag", value[] = "\"1\"";
    struct header headers[] = {{slice_text(name), slice_text(value)}, {SLICE("x-empty"), SLICE("")}};

    start();
    fetch_head(0, 200, -1, headers, 2);
    memset(name, '-', 4);
    memset(value, '-', 3);
    cr_assert_eq(stream->header_count, 2);
    cr_assert(slice_eq(stream->headers[0].name, SLICE("etag")));
    cr_assert(slice_eq(stream->headers[0].value, SLICE("\"1\"")));
    cr_assert_eq(stream->headers[1].value.len, 0);
    cr_assert_eq(stream->waited_us, 1000);
    stop();
}

Test(stream, an_owner_need_not_listen)
{
    struct origin_request request = {
        .method = SLICE("GET"), .target = SLICE("/"), .authority = SLICE("localhost")};
    int64_t sent = 0;

    loop = loop_new();
    site = test_site_new(loop);
    stream = stream_start(site, &site_settings(site)->upstreams[0], &request, &SILENT_OWNER, NULL);
    fetch_head(0, 200, -1, NULL, 0);
    stream_keep(stream, 1);
    send_bytes(10, &sent);
    fetch_end(0, FAULT_NONE);
    cr_assert(stream->has_ended);
    stop();
}

/* A reload lets go of the site; the last of its exchanges ends inside a callback of one of its pools. */
Test(stream, the_last_to_hold_a_site_may_end_inside_a_callback_of_its_pool)
{
    struct client a = {0};

    a.leaves_when_woken = &a;
    start();
    site_release(&site);
    fetch_head(0, 200, -1, NULL, 0);
    join(&a);
    client_read(&a);
    stream_disown(&stream, false);
    fetch_end(0, FAULT_NONE); /* the pool must outlive this call */
    stop();
}
