/* What the connection to Redis promises, against a server that the test plays itself, byte by byte, and
 * against a real one that is stopped, killed and started again. The test turns the loop and waits for
 * conditions, never for time. */
#include "clock.h"
#include "loop.h"
#include "redis_fixture.h"
#include "redis_link.h"
#include "redis_reader.h"
#include "log.h"

#include <criterion/criterion.h>
#include <poll.h>

enum { PATIENCE_MS = 20000, TIMEOUT_MS = 60, LONG_MS = 15000 };

static struct loop *loop;
static struct redis_link *link_;
static int changes_up, changes_down;

/* ---- the loop ---- */

#define turn_until(condition)                                                                                \
    do {                                                                                                     \
        int64_t give_up_ms_ = clock_mono().ms + PATIENCE_MS;                                                 \
        while (!(condition)) {                                                                               \
            cr_assert_lt(clock_mono().ms, give_up_ms_, "never came true: %s", #condition);                   \
            loop_turn(loop, 5);                                                                              \
        }                                                                                                    \
    } while (0)

static void on_change(void *arg, bool is_up)
{
    (void)arg;
    *(is_up ? &changes_up : &changes_down) += 1;
}

static void start(void)
{
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    loop = loop_new();
}

static void stop(void)
{
    if (link_ != NULL)
        redis_link_free(link_);
    loop_turn(loop, 0);
    loop_free(loop);
}

TestSuite(redis_link, .init = start, .fini = stop, .timeout = 60);

static struct redis_options options_to(const char *host, int port)
{
    return (struct redis_options){
        .host = host,
        .port = port,
        .name = "test",
        .timeout_ms = TIMEOUT_MS,
        .max_reply_bytes = 1 << 20,
        .max_output_bytes = 1 << 20,
        .on_change = on_change,
    };
}

/* ---- commands ---- */

struct asked {
    struct redis_call call;
    int runs;
    enum fault fault;
    char text[64];
    int64_t integer;
    enum redis_kind kind;
};

static void on_done(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct asked *asked = arg;

    asked->runs++;
    asked->fault = fault;
    if (fault != FAULT_NONE)
        return;
    asked->kind = reply->kind;
    asked->integer = reply->integer;
    snprintf(asked->text, sizeof(asked->text), "%.*s", (int)reply->text.len,
             reply->text.base == NULL ? "" : reply->text.base);
}

static void ask_within(struct asked *asked, int64_t ms, const char *a, const char *b)
{
    struct redis_words words = {0};

    *asked = (struct asked){.runs = 0};
    redis_words_add(&words, slice_text(a));
    if (b != NULL)
        redis_words_borrow(&words, slice_text(b));
    redis_link_send(link_, &asked->call, &words, mono_after(loop_now(loop), ms), on_done, asked);
    cr_assert_eq(asked->runs, 0, "never inside the start");
    redis_words_free(&words);
}

static void ask(struct asked *asked, const char *a, const char *b)
{
    ask_within(asked, LONG_MS, a, b);
}

static void expect_text(const struct asked *asked, const char *want)
{
    cr_assert_eq(asked->runs, 1);
    cr_assert_eq(asked->fault, FAULT_NONE, "%s", fault_name(asked->fault));
    cr_assert_str_eq(asked->text, want);
}

/* ---- the server that the test plays ---- */

static int listener = -1, server = -1;

static int play(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(any);

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&any, len), 0);
    cr_assert_eq(listen(listener, 8), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&any, &len), 0);
    return ntohs(any.sin_port);
}

static bool is_called(void)
{
    server = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return server >= 0;
}

static char heard[1 << 16];
static size_t heard_len;

static bool hears(const char *text)
{
    ssize_t more = read(server, heard + heard_len, sizeof(heard) - 1 - heard_len);

    if (more > 0)
        heard_len += (size_t)more;
    heard[heard_len] = '\0';
    return strstr(heard, text) != NULL;
}

static void say_bytes(const char *bytes, size_t len)
{
    cr_assert_eq(write(server, bytes, len), (ssize_t)len);
}

static void say(const char *text)
{
    say_bytes(text, strlen(text));
}

static void hang_up(void)
{
    close(server);
    server = -1;
}

#define PING_COMMAND "*1\r\n$4\r\nPING\r\n"

/* Accepts the next connection, whatever happened to the one before, and answers its greeting. */
static void welcome(void)
{
    heard_len = 0;
    turn_until(is_called());
    turn_until(hears(PING_COMMAND));
    say("+OK\r\n+PONG\r\n");
    heard_len = 0;
    turn_until(redis_link_is_up(link_));
}

static void connect_to_test(void)
{
    struct redis_options options = options_to("127.0.0.1", play());

    link_ = redis_link_new(loop, &options);
    welcome();
}

Test(redis_link, the_first_write_says_who_we_are_and_which_database_and_asks_whether_it_is_ready)
{
    struct redis_options options = options_to("127.0.0.1", play());

    options.user = "weir";
    options.password = "secret";
    options.database = 3;
    link_ = redis_link_new(loop, &options);
    turn_until(is_called());
    turn_until(hears(PING_COMMAND));
    cr_assert_str_eq(heard,
                     "*3\r\n$4\r\nAUTH\r\n$4\r\nweir\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
                     "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$4\r\ntest\r\n" PING_COMMAND);
    say("+OK\r\n+OK\r\n");
    loop_turn(loop, 5);
    cr_assert_not(redis_link_is_up(link_));
    say("-NOPERM it may not have a name\r\n+PONG\r\n");
    turn_until(redis_link_is_up(link_));
    cr_assert_eq(changes_up, 1);
}

Test(redis_link, a_server_that_is_not_ready_or_wants_another_password_is_called_again)
{
    struct redis_options options = options_to("127.0.0.1", play());
    static const char *const answers[] = {"+OK\r\n-LOADING Redis is loading\r\n",
                                          "-NOAUTH\r\n-NOAUTH Authentication required.\r\n",
                                          "+OK\r\n-MASTERDOWN Link with MASTER is down\r\n", "nonsense\r\n"};

    link_ = redis_link_new(loop, &options);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        heard_len = 0;
        turn_until(is_called());
        turn_until(hears(PING_COMMAND));
        say(answers[i]);
        turn_until(read(server, heard, 1) == 0);
        hang_up();
    }
    cr_assert_eq(changes_up, 0);
    welcome();
}

Test(redis_link, the_commands_of_a_turn_leave_together_and_their_answers_come_in_order)
{
    struct asked asked[4];
    static const char *const words[] = {"a", "b", "c", "d"};

    connect_to_test();
    for (int i = 0; i < 4; i++)
        ask(&asked[i], "GET", words[i]);
    cr_assert_not(hears("GET"), "nothing leaves before the end of the turn");
    loop_turn(loop, 0);
    struct pollfd ready = {.fd = server, .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, PATIENCE_MS), 1);
    cr_assert(hears("*2\r\n$3\r\nGET\r\n$1\r\nd\r\n"), "all of them arrive at once");
    say("$3\r\none\r\n:2\r\n-ERR three\r\n$-1\r\n");
    turn_until(asked[3].runs == 1);
    expect_text(&asked[0], "one");
    cr_assert(asked[1].kind == REDIS_INTEGER && asked[1].integer == 2);
    cr_assert(asked[2].fault == FAULT_NONE && asked[2].kind == REDIS_ERROR);
    cr_assert_eq(asked[3].kind, REDIS_NIL);
}

Test(redis_link, who_waited_long_enough_hears_it_and_the_late_reply_goes_to_nobody_else)
{
    struct asked late, next;

    connect_to_test();
    ask_within(&late, TIMEOUT_MS, "GET", "late");
    turn_until(late.runs == 1);
    cr_assert_eq(late.fault, FAULT_STORE_SILENT);
    ask(&next, "GET", "next");
    turn_until(hears("next"));
    say("+for late\r\n+for next\r\n");
    turn_until(next.runs == 1);
    expect_text(&next, "for next");
    cr_assert_eq(late.runs, 1);
}

static void fall_mute(void)
{
    struct asked silent[3];

    for (int i = 0; i < 3; i++)
        ask_within(&silent[i], TIMEOUT_MS, "GET", "x");
    turn_until(silent[2].runs == 1);
    cr_assert_eq(silent[2].fault, FAULT_STORE_SILENT);
    cr_assert_not(redis_link_is_up(link_));
}

Test(redis_link, a_mute_server_costs_a_few_their_timeout_and_then_nobody)
{
    struct asked refused, answered;

    connect_to_test();
    fall_mute();
    cr_assert_eq(changes_down, 1);
    ask(&refused, "GET", "y");
    turn_until(refused.runs == 1);
    cr_assert_eq(refused.fault, FAULT_STORE_AWAY, "long before its deadline");
    say("+late\r\n");
    turn_until(redis_link_is_up(link_));
    cr_assert_eq(changes_up, 2);
    ask(&answered, "GET", "z");
    turn_until(hears("$1\r\nz"));
    say("+late\r\n+late\r\n+z\r\n");
    turn_until(answered.runs == 1);
    expect_text(&answered, "z");
}

Test(redis_link, a_server_that_stays_mute_is_called_anew)
{
    struct asked answered;

    connect_to_test();
    fall_mute();
    turn_until(read(server, heard, sizeof(heard)) == 0); /* it hangs up */
    hang_up();
    welcome();
    ask(&answered, "GET", "z");
    turn_until(hears("$1\r\nz"));
    say("+z\r\n");
    turn_until(answered.runs == 1);
    expect_text(&answered, "z");
}

Test(redis_link, an_idle_connection_that_died_is_found_out_before_anybody_needs_it)
{
    connect_to_test();
    turn_until(hears(PING_COMMAND)); /* the heartbeat, which the test leaves unanswered */
    turn_until(!redis_link_is_up(link_));
    say("+PONG\r\n");
    turn_until(redis_link_is_up(link_));
}

Test(redis_link, all_under_way_hear_at_once_that_the_connection_broke_and_it_comes_back)
{
    struct asked asked[3], after;

    connect_to_test();
    for (int i = 0; i < 3; i++)
        ask(&asked[i], "GET", "x");
    turn_until(hears("GET"));
    say("+x\r\n");
    turn_until(asked[0].runs == 1);
    hang_up();
    turn_until(asked[2].runs == 1);
    expect_text(&asked[0], "x");
    cr_assert(asked[1].fault == FAULT_STORE_AWAY && asked[1].runs == 1 && asked[2].fault == FAULT_STORE_AWAY);
    cr_assert_eq(changes_down, 1);
    ask(&after, "GET", "y");
    turn_until(after.runs == 1);
    cr_assert_eq(after.fault, FAULT_STORE_AWAY, "nobody waits for a redial");
    welcome();
}

/* A master that was demoted keeps its clients, and refuses what they write, for ever. */
Test(redis_link, a_server_that_may_not_write_any_more_is_left_for_whoever_has_its_name_now)
{
    struct asked asked[2];

    connect_to_test();
    ask(&asked[0], "SET", "x");
    ask(&asked[1], "SET", "y");
    turn_until(hears("$1\r\ny"));
    say("-READONLY You can't write against a read only replica.\r\n");
    turn_until(asked[1].runs == 1);
    cr_assert(asked[0].fault == FAULT_STORE_AWAY && asked[1].fault == FAULT_STORE_AWAY);
    hang_up();
    welcome();
}

Test(redis_link, nonsense_ends_the_connection_and_nothing_else)
{
    static const struct {
        const char *why, *bytes;
    } rows[] = {
        {"not the protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"},
        {"a length that is none", "$abc\r\n"},
        {"an array larger than any of ours", "*1000000000\r\n"},
        {"a text larger than any of ours", "$500000000\r\n"},
        {"deeper than any of ours", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"},
        {"large arrays in an array", "*4\r\n*60000\r\n:1\r\n"},
        {"more answers than questions", "+a\r\n+b\r\n"},
        {"a published message, to one who did not subscribe",
         "+a\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"},
    };

    connect_to_test();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct asked asked;
        char filler[4096];

        ask(&asked, "GET", "x");
        turn_until(hears("GET"));
        say(rows[i].bytes);
        memset(filler, 'x', sizeof(filler)); /* what a length announced, until somebody has had enough */
        for (int j = 0; j < 1000 && redis_link_is_up(link_); j++) {
            if (send(server, filler, sizeof(filler), MSG_NOSIGNAL) < 0 && errno != EAGAIN)
                break;
            loop_turn(loop, 0);
        }
        turn_until(!redis_link_is_up(link_));
        turn_until(asked.runs == 1);
        hang_up();
        welcome();
    }
    cr_assert_eq(changes_down, (int)(sizeof(rows) / sizeof(rows[0])));
}

Test(redis_link, what_does_not_fit_is_refused_rather_than_queued)
{
    struct asked asked;
    struct redis_words words = {0};
    static char large[1 << 20];

    connect_to_test();
    redis_words_borrow(&words, SLICE("SET"));
    redis_words_borrow(&words, slice_of(large, sizeof(large)));
    asked = (struct asked){.runs = 0};
    redis_link_send(link_, &asked.call, &words, mono_after(loop_now(loop), LONG_MS), on_done, &asked);
    redis_words_free(&words);
    cr_assert_eq(asked.runs, 0);
    turn_until(asked.runs == 1);
    cr_assert_eq(asked.fault, FAULT_STORE_AWAY);
}

Test(redis_link, a_cancelled_call_is_never_heard_of_wherever_it_was)
{
    struct asked sent, refused, next;

    connect_to_test();
    ask(&sent, "GET", "sent");
    turn_until(hears("sent"));
    redis_call_cancel(&sent.call);
    redis_call_cancel(&sent.call); /* fine */
    ask(&next, "GET", "next");
    turn_until(hears("next"));
    say("+sent\r\n+next\r\n");
    turn_until(next.runs == 1);
    expect_text(&next, "next");
    hang_up();
    turn_until(!redis_link_is_up(link_));
    ask(&refused, "GET", "refused");
    redis_call_cancel(&refused.call);
    ask(&next, "GET", "next");
    turn_until(next.runs == 1);
    cr_assert(sent.runs == 0 && refused.runs == 0);
}

static struct asked other, third;

static void cancel_other(void *arg, enum fault fault, const struct redis_reply *reply)
{
    (void)reply;
    *(enum fault *)arg = fault;
    redis_call_cancel(&other.call);
}

Test(redis_link, one_callback_may_cancel_the_next_also_while_a_connection_ends)
{
    struct redis_call first;
    struct redis_words words = {0};

    connect_to_test();
    redis_words_borrow(&words, SLICE("GET"));
    for (int round = 0; round < 2; round++) {
        enum fault fault = FAULT_CLIENT_LEFT;

        first = (struct redis_call){0};
        redis_link_send(link_, &first, &words, mono_after(loop_now(loop), LONG_MS), cancel_other, &fault);
        ask(&other, "GET", "other");
        ask(&third, "GET", "third");
        turn_until(hears("third"));
        if (round == 0)
            say("+1\r\n+2\r\n+3\r\n");
        else
            hang_up();
        turn_until(third.runs == 1);
        cr_assert_eq(fault, round == 0 ? FAULT_NONE : FAULT_STORE_AWAY);
        cr_assert_eq(other.runs, 0);
        heard_len = 0;
    }
    redis_words_free(&words);
}

Test(redis_link, freed_with_calls_under_way_it_calls_nobody)
{
    struct asked sent, unsent;

    connect_to_test();
    ask(&sent, "GET", "sent");
    turn_until(hears("sent"));
    ask(&unsent, "GET", "unsent");
    redis_link_free(link_);
    link_ = NULL;
    loop_turn(loop, 5);
    cr_assert(sent.runs == 0 && unsent.runs == 0);
}

Test(redis_link, until_the_first_dial_has_ended_commands_wait_for_it)
{
    struct redis_options options = options_to("127.0.0.1", play());
    struct asked early, dropped;

    link_ = redis_link_new(loop, &options);
    ask(&early, "GET", "early");
    turn_until(is_called());
    turn_until(hears(PING_COMMAND));
    cr_assert_not(hears("early"), "who knows yet which database");
    say("+OK\r\n+PONG\r\n");
    turn_until(hears("early"));
    say("+early\r\n");
    turn_until(early.runs == 1);
    expect_text(&early, "early");
    redis_link_free(link_);
    close(listener);
    link_ = redis_link_new(loop, &options);
    ask(&dropped, "GET", "x");
    turn_until(dropped.runs == 1);
    cr_assert_eq(dropped.fault, FAULT_STORE_AWAY, "nobody listens");
}

/* ---- a real one ---- */

static struct redis_fixture fixture;

static void expect_pong(void)
{
    struct asked asked;

    ask(&asked, "PING", NULL);
    turn_until(asked.runs == 1);
    expect_text(&asked, "PONG");
}

Test(redis_link, it_is_reached_by_address_by_name_and_by_path)
{
    fixture = redis_fixture_start();
    for (int way = 0; way < 3; way++) {
        struct redis_options options = options_to(way == 0 ? "127.0.0.1" : "localhost", fixture.port);

        options.unix_path = way == 2 ? fixture.socket : NULL;
        options.timeout_ms = 5000;
        link_ = redis_link_new(loop, &options);
        turn_until(redis_link_is_up(link_));
        expect_pong();
        redis_link_free(link_);
        link_ = NULL;
    }
    redis_fixture_stop(&fixture);
}

Test(redis_link, a_name_that_nobody_knows_is_no_reason_to_block_or_to_give_up)
{
    struct redis_options options = options_to("weir.invalid", 6379);
    struct asked asked;

    link_ = redis_link_new(loop, &options);
    ask(&asked, "PING", NULL);
    turn_until(asked.runs == 1);
    cr_assert_eq(asked.fault, FAULT_STORE_AWAY);
}

Test(redis_link, killed_and_started_again_it_is_back)
{
    fixture = redis_fixture_start();
    struct redis_options options = options_to("127.0.0.1", fixture.port);

    options.timeout_ms = 5000;
    link_ = redis_link_new(loop, &options);
    turn_until(redis_link_is_up(link_));
    for (int i = 0; i < 3; i++) {
        redis_fixture_kill(&fixture);
        turn_until(!redis_link_is_up(link_));
        cr_assert(redis_fixture_run(&fixture));
        turn_until(redis_link_is_up(link_));
        expect_pong();
    }
    redis_fixture_stop(&fixture);
}

Test(redis_link, stopped_in_its_tracks_it_stops_nobody_else)
{
    fixture = redis_fixture_start();
    struct redis_options options = options_to("127.0.0.1", fixture.port);
    struct asked asked;

    options.timeout_ms = 200;
    link_ = redis_link_new(loop, &options);
    turn_until(redis_link_is_up(link_));
    kill(fixture.pid, SIGSTOP);
    fall_mute();
    for (int i = 0; i < 100; i++) {
        ask(&asked, "PING", NULL);
        turn_until(asked.runs == 1);
        cr_assert_eq(asked.fault, FAULT_STORE_AWAY);
    }
    kill(fixture.pid, SIGCONT);
    turn_until(redis_link_is_up(link_));
    expect_pong();
    redis_fixture_stop(&fixture);
}

/* ---- the reader alone ---- */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* Everything the reader hands out, whatever it was fed. */
static size_t read_all(struct redis_reader *reader, const char *bytes, size_t len, size_t piece)
{
    struct redis_reply *reply;
    size_t replies = 0;

    for (size_t at = 0; at < len; at += piece) {
        if (!redis_reader_feed(reader, slice_of(bytes + at, len - at < piece ? len - at : piece)))
            return replies;
        do {
            if (!redis_reader_next(reader, &reply)) {
                cr_assert_not_null(redis_reader_complaint(reader));
                return replies;
            }
            replies += reply != NULL;
            redis_reply_free(reply);
        } while (reply != NULL);
    }
    return replies;
}

Test(redis_link, the_reader_takes_any_bytes_in_any_pieces)
{
    static const char good[] =
        "*5\r\n:1764504000000000\r\n:0\r\n:0\r\n*2\r\n$3\r\ntag\r\n:7\r\n*3\r\n$5\r\nfresh\r\n$-1\r\n*-1\r\n"
        "+OK\r\n-ERR no\r\n:12\r\n*0\r\n$0\r\n\r\n";
    uint32_t random = 7;
    char bytes[sizeof(good)];

    for (size_t piece = 1; piece < sizeof(good); piece++) {
        struct redis_reader *reader = redis_reader_new(4096);
        cr_assert_eq(read_all(reader, good, sizeof(good) - 1, piece), 6);
        redis_reader_free(reader);
    }
    for (int round = 0; round < 20000; round++) {
        struct redis_reader *reader = redis_reader_new(next_random(&random) % 2000);

        memcpy(bytes, good, sizeof(good));
        for (uint32_t hits = next_random(&random) % 6; hits > 0; hits--)
            bytes[next_random(&random) % (sizeof(good) - 1)] =
                "0123456789-*$:+\r\n\0a"[next_random(&random) % 19];
        read_all(reader, bytes, next_random(&random) % sizeof(good), 1 + next_random(&random) % 40);
        redis_reader_free(reader);
    }
}
