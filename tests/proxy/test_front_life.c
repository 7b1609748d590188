/* How connections and requests end: clients that leave, stall or are too many, deadlines, drain and abort. */
#include "support_front.h"

#include "clock.h"
#include "stats.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(front_life, .init = stage_open, .fini = stage_close, .timeout = 60);

#define WAIT "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"
#define ECHO "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"

static void set_limits(void)
{
    front_set_limits(stage.front, &stage.limits);
}

/* ---- forerunners of an answer ---- */

Test(front_life, a_forerunner_goes_out_at_once_and_the_answer_after_it)
{
    static const struct header link = {{"link", 4}, {"</a>", 4}};
    struct client client = client_connect();

    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    client_inform(stage.parked[0], 103, &link, 1);
    client_inform(stage.parked[0], 102, NULL, 0);
    client_await(&client, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n");
    stage_answer(stage.parked[0], 200, "done\n");
    client_await(&client, "done\n");
    cr_assert_not_null(strstr(client.got, "\r\n\r\nHTTP/1.1 200 OK\r\n"));
    client_close(&client);
}

Test(front_life, a_forerunner_that_its_client_cannot_take_is_left_out)
{
    static char long_value[9000];
    struct header big = {{"x", 1}, {long_value, sizeof(long_value)}};
    struct client old = client_connect(), other = client_connect(), gone = client_connect();

    memset(long_value, 'x', sizeof(long_value));
    client_say(&old, "GET /wait HTTP/1.0\r\nHost: a\r\n\r\n");
    STAGE_UNTIL(stage.parked_count == 1);
    client_say(&other, WAIT);
    STAGE_UNTIL(stage.parked_count == 2);
    client_say(&gone, WAIT);
    STAGE_UNTIL(stage.parked_count == 3);
    client_close(&gone);
    client_inform(stage.parked[0], 103, NULL, 0);
    client_inform(stage.parked[1], 103, &big, 1);
    client_inform(stage.parked[2], 103, NULL, 0); /* nobody has noticed yet */
    stage_answer(stage.parked[0], 200, "first\n");
    stage_answer(stage.parked[1], 200, "second\n");
    client_await(&old, "first\n");
    client_await(&other, "second\n");
    cr_assert_null(strstr(old.got, "103"));
    cr_assert_null(strstr(other.got, "103"));
    STAGE_UNTIL(stage.gone == 3);
    client_close(&old);
    client_close(&other);
}

/* ---- clients that leave ---- */

Test(front_life, a_client_that_leaves_while_it_waits_is_noticed_and_nobody_else_is_touched)
{
    struct client leaves = client_connect(), stays = client_connect();

    client_say(&leaves, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    client_say(&stays, WAIT);
    STAGE_UNTIL(stage.parked_count == 2);
    for (int i = 0; i < 10; i++)
        stage_turn();
    cr_assert_eq(stage.gone, 0);
    client_close(&leaves);
    STAGE_UNTIL(stage.gone == 1);
    cr_assert_null(stage.parked[0]);
    cr_assert_not_null(stage.parked[1]);
    STAGE_UNTIL(front_connections(stage.front) == 1);
    stage_answer(stage.parked[1], 200, "still here\n");
    client_await(&stays, "still here\n");
    client_say(&stays, ECHO);
    client_await(&stays, "GET /echo a \n");
    client_close(&stays);
}

Test(front_life, a_reset_is_noticed_too)
{
    struct client client = client_connect();
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    client_close(&client);
    STAGE_UNTIL(stage.gone == 1 && front_connections(stage.front) == 0);
}

Test(front_life, a_request_whose_client_left_before_the_turn_was_over_is_never_heard_of_or_ends)
{
    for (int i = 0; i < 50; i++) {
        struct client client = client_connect();

        client_say(&client, WAIT);
        client_close(&client);
        if (i % 10 == 9)
            STAGE_UNTIL(front_connections(stage.front) == 0);
    }
    cr_assert_eq(stage.gone, stage.shown);
}

Test(front_life, a_client_that_leaves_with_requests_behind_is_noticed)
{
    struct client client = client_connect();

    client_say(&client, WAIT ECHO);
    STAGE_UNTIL(stage.parked_count == 1);
    for (int i = 0; i < 10; i++)
        stage_turn();
    client_say(&client, ECHO); /* arrives while the first waits: a departure can no longer be read */
    for (int i = 0; i < 10; i++)
        stage_turn();
    client_close(&client);
    STAGE_UNTIL(stage.gone == 1 && front_connections(stage.front) == 0);
    cr_assert_eq(stage.shown, 1);
}

Test(front_life, a_client_that_leaves_between_two_pieces_is_noticed)
{
    struct client client = client_connect();

    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, -1);
    stage_send(stage.parked[0], "part", CLIENT_MORE);
    client_await(&client, "part");
    STAGE_UNTIL(stage.ready == 1);
    client_close(&client);
    STAGE_UNTIL(stage.gone == 1 && front_connections(stage.front) == 0);
}

static char vast[8 << 20];

Test(front_life, a_client_that_leaves_during_a_write_is_noticed)
{
    struct client client = client_connect();

    memset(vast, 'v', sizeof(vast) - 1);
    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, -1);
    stage_send(stage.parked[0], vast, CLIENT_MORE);
    for (int i = 0; i < 10; i++)
        stage_turn();
    cr_assert_eq(stage.ready, 0);
    client_close(&client);
    STAGE_UNTIL(stage.gone == 1 && front_connections(stage.front) == 0);
    cr_assert_eq(stage.ready, 0);
}

Test(front_life, a_client_that_does_not_read_is_not_given_more)
{
    struct client client = client_connect();

    memset(vast, 'v', sizeof(vast) - 1);
    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, (int64_t)strlen(vast) + 4);
    stage_send(stage.parked[0], vast, CLIENT_MORE);
    for (int i = 0; i < 50; i++)
        stage_turn();
    cr_assert_eq(stage.ready, 0, "the kernel does not take so much");
    STAGE_UNTIL((client_read(&client), stage.ready == 1));
    stage_send(stage.parked[0], "done", CLIENT_LAST);
    client_await(&client, "vdone");
    cr_assert_gt(client.len, strlen(vast));
    client_close(&client);
}

/* ---- deadlines ---- */

Test(front_life, a_connection_that_never_asks_is_closed)
{
    struct client client = client_connect();

    stage.limits.header_timeout_ms = 100;
    set_limits();
    client_await_end(&client);
    cr_assert_eq(client.len, 0);
    cr_assert_eq(stage.refused, 0);
    client_close(&client);
}

Test(front_life, a_head_that_dribbles_is_cut_off_with_408)
{
    struct client client = client_connect();
    int64_t give_up_ms = clock_mono().ms + STAGE_PATIENCE_MS;

    stage.limits.header_timeout_ms = 200;
    set_limits();
    client_say(&client, "GET /echo HTTP/1.1\r\nHost: a\r\n");
    for (int turn = 0; !client.is_closed && clock_mono().ms < give_up_ms; turn++) {
        if (turn % 10 == 0)
            send(client.fd, "X: y\r\n", 6, MSG_NOSIGNAL);
        stage_turn();
        client_read(&client);
    }
    cr_assert(strstr(client.got, "HTTP/1.1 408 Request Timeout\r\n") == client.got, "%s", client.got);
    cr_assert_eq(stage.refused_status, 408);
    cr_assert_eq(stage.shown, 0);
    client_close(&client);
}

Test(front_life, a_second_head_that_dribbles_is_cut_off_as_well)
{
    struct client client = client_connect();

    stage.limits.header_timeout_ms = 200;
    set_limits();
    client_say(&client, ECHO);
    client_await(&client, "GET /echo a \n");
    client_say(&client, "GET /ech");
    client_await_end(&client);
    cr_assert(strstr(client.got, "HTTP/1.1 408 ") != NULL);
    cr_assert_eq(stage.shown, 1);
    client_close(&client);
}

Test(front_life, a_body_that_does_not_come_is_cut_off_with_408)
{
    struct client client = client_connect();

    stage.limits.body_timeout_ms = 200;
    set_limits();
    client_say(&client, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    client_await_end(&client);
    cr_assert(strstr(client.got, "HTTP/1.1 408 ") == client.got, "%s", client.got);
    cr_assert_eq(stage.shown, 0);
    client_close(&client);
}

Test(front_life, a_body_that_does_not_come_after_100_continue_is_cut_off)
{
    struct client client = client_connect();

    stage.limits.body_timeout_ms = 200;
    set_limits();
    client_say(&client,
               "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    client_await_end(&client);
    cr_assert(strstr(client.got, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 408 ") == client.got, "%s",
              client.got);
    cr_assert_eq(stage.shown, 0);
    client_close(&client);
}

Test(front_life, a_body_that_takes_longer_than_a_head_may_is_fine)
{
    struct client client = client_connect();
    int64_t until_ms;

    stage.limits.header_timeout_ms = 100;
    set_limits();
    client_say(&client, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    for (until_ms = clock_mono().ms + 300; clock_mono().ms < until_ms;)
        stage_turn();
    client_say(&client, "lo");
    client_await(&client, "POST /echo a hello\n");
    client_close(&client);
}

Test(front_life, an_idle_connection_is_closed_without_a_word)
{
    struct client client = client_connect();
    size_t len;

    stage.limits.idle_timeout_ms = 200;
    set_limits();
    client_say(&client, ECHO);
    client_await(&client, "GET /echo a \n");
    len = client.len;
    client_await_end(&client);
    cr_assert_eq(client.len, len);
    cr_assert_not(client.is_reset);
    cr_assert_eq(stage.refused, 0);
    client_close(&client);
}

Test(front_life, waiting_for_the_story_is_nobodys_fault)
{
    struct client client = client_connect();
    int64_t until_ms;

    stage.limits.idle_timeout_ms = stage.limits.header_timeout_ms = stage.limits.body_timeout_ms =
        stage.limits.write_timeout_ms = 50;
    set_limits();
    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    for (until_ms = clock_mono().ms + 400; clock_mono().ms < until_ms;)
        stage_turn();
    stage_start(stage.parked[0], 200, -1);
    stage_send(stage.parked[0], "part", CLIENT_MORE);
    for (until_ms = clock_mono().ms + 400; clock_mono().ms < until_ms;)
        stage_turn();
    stage_send(stage.parked[0], "rest", CLIENT_LAST);
    client_await(&client, "rest");
    client_close(&client);
}

Test(front_life, a_client_that_takes_nothing_for_write_timeout_is_cut_off)
{
    struct client client = client_connect();

    memset(vast, 'v', sizeof(vast) - 1);
    stage.limits.write_timeout_ms = 200;
    set_limits();
    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, -1);
    stage_send(stage.parked[0], vast, CLIENT_MORE);
    STAGE_UNTIL(stage.gone == 1 && front_connections(stage.front) == 0);
    client_close(&client);
}

Test(front_life, a_client_that_stalls_in_the_last_piece_is_cut_off_too)
{
    struct client client = client_connect();

    memset(vast, 'v', sizeof(vast) - 1);
    stage.limits.write_timeout_ms = 200;
    set_limits();
    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, (int64_t)strlen(vast));
    stage_send(stage.parked[0], vast, CLIENT_LAST);
    STAGE_UNTIL(stage.gone == 1 && front_connections(stage.front) == 0);
    client_close(&client);
}

Test(front_life, a_slow_client_that_makes_progress_is_served_for_longer_than_write_timeout)
{
    struct client client = client_connect();
    int64_t began_ms;
    int small = 4096;

    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    memset(vast, 'v', sizeof(vast) - 1);
    stage.limits.write_timeout_ms = 400;
    set_limits();
    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, -1);
    stage_send(stage.parked[0], vast, CLIENT_MORE);
    for (began_ms = clock_mono().ms; clock_mono().ms < began_ms + 1500;) {
        char bytes[32768];

        stage_turn();
        if (recv(client.fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 0)
            break;
    }
    cr_assert_eq(stage.gone, 0);
    client_close(&client);
}

/* ---- caps ---- */

Test(front_life, beyond_max_connections_clients_wait_until_one_leaves)
{
    struct client first = client_connect(), second = client_connect(), third;

    stage.limits.max_connections = 2;
    set_limits();
    STAGE_UNTIL(front_connections(stage.front) == 2);
    third = client_connect(); /* by the kernel */
    client_say(&third, ECHO);
    for (int i = 0; i < 20; i++)
        stage_turn();
    client_read(&third);
    cr_assert_eq(third.len, 0);
    cr_assert_eq(front_connections(stage.front), 2);
    client_close(&first);
    client_await(&third, "GET /echo a \n");
    stage.limits.max_connections = 10;
    set_limits();
    first = client_connect();
    client_say(&first, ECHO);
    client_await(&first, "GET /echo a \n");
    client_close(&first);
    client_close(&second);
    client_close(&third);
}

Test(front_life, an_address_with_too_many_connections_is_told_so)
{
    struct client clients[3], refused;

    stage.limits.max_per_address = 3;
    set_limits();
    for (int i = 0; i < 3; i++)
        clients[i] = client_connect();
    STAGE_UNTIL(front_connections(stage.front) == 3);
    refused = client_connect();
    client_await_end(&refused);
    cr_assert(strstr(refused.got, "HTTP/1.1 503 Service Unavailable\r\n") == refused.got);
    cr_assert_eq(stage.refused_status, 503);
    client_close(&refused);
    client_close(&clients[0]);
    STAGE_UNTIL(front_connections(stage.front) == 2);
    clients[0] = client_connect();
    client_say(&clients[0], ECHO);
    client_await(&clients[0], "GET /echo a \n");
    for (int i = 0; i < 3; i++)
        client_close(&clients[i]);
}

Test(front_life, a_process_without_descriptors_accepts_again_when_it_has_some)
{
    struct client client = client_connect();
    struct rlimit before, tight;
    int next = dup(client.fd);

    close(next);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = (struct rlimit){.rlim_cur = (rlim_t)next /* not one more */, .rlim_max = before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    for (int i = 0; i < 10; i++)
        stage_turn();
    cr_assert_eq(front_connections(stage.front), 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    client_say(&client, ECHO);
    client_await(&client, "GET /echo a \n");
    client_close(&client);
}

Test(front_life, hundreds_of_clients_at_once_are_all_answered)
{
    enum { CLIENTS = 100 };
    static struct client clients[CLIENTS];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = client_connect();
            client_say(&clients[i], i % 2 == 0 ? ECHO : "GET /chunks HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for (int i = 0; i < CLIENTS; i++)
            client_await(&clients[i], i % 2 == 0 ? "GET /echo a \n" : "two\r\n0\r\n\r\n");
        for (int i = 0; i < CLIENTS; i++)
            client_close(&clients[i]);
        STAGE_UNTIL(front_connections(stage.front) == 0);
    }
    cr_assert_eq(stage.gone, 3 * CLIENTS);
}

/* ---- drain and abort ---- */

Test(front_life, drain_closes_idle_connections_now_and_others_after_their_answer)
{
    struct client idle = client_connect(), busy = client_connect(), half = client_connect();

    client_say(&idle, ECHO);
    client_await(&idle, "GET /echo a \n");
    client_say(&busy, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    client_say(&half, "GET /echo-half HTTP/1.1\r\n");
    for (int i = 0; i < 10; i++)
        stage_turn();
    front_stop_listening(stage.front);
    front_drain(stage.front);
    client_await_end(&idle);
    cr_assert_eq(front_connections(stage.front), 2);
    client_say(&half, "Host: a\r\n\r\n");
    client_await_end(&half);
    cr_assert(strstr(half.got, "Connection: close\r\n") != NULL);
    cr_assert(strstr(half.got, "GET /echo-half a \n") != NULL);
    stage_answer(stage.parked[0], 200, "late\n");
    client_await_end(&busy);
    cr_assert(strstr(busy.got, "Connection: close\r\n") != NULL);
    cr_assert(strstr(busy.got, "late\n") != NULL);
    cr_assert_eq(front_connections(stage.front), 0);
    client_close(&idle);
    client_close(&busy);
    client_close(&half);
}

Test(front_life, drain_also_closes_connections_whose_answer_had_already_begun)
{
    struct client client = client_connect();

    client_say(&client, WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, -1);
    stage_send(stage.parked[0], "part", CLIENT_MORE);
    client_await(&client, "part");
    cr_assert(strstr(client.got, "Connection: keep-alive\r\n") != NULL);
    front_drain(stage.front);
    for (int i = 0; i < 10; i++)
        stage_turn();
    stage_send(stage.parked[0], "rest", CLIENT_LAST);
    client_await_end(&client);
    cr_assert(strstr(client.got, "4\r\nrest\r\n0\r\n\r\n") != NULL);
    client_close(&client);
}

Test(front_life, clients_in_the_queue_are_served_when_listening_stops)
{
    struct client clients[5];

    for (int i = 0; i < 5; i++) {
        clients[i] = client_connect();
        client_write(&clients[i], ECHO, sizeof(ECHO) - 1);
    }
    front_stop_listening(stage.front);
    front_drain(stage.front);
    for (int i = 0; i < 5; i++) {
        client_await_end(&clients[i]);
        cr_assert(strstr(clients[i].got, "GET /echo a \n") != NULL);
        client_close(&clients[i]);
    }
}

static int64_t counted(enum stats_family family, const char *label)
{
    const char *labels[] = {label};

    return stats_total(stats_series(family, labels));
}

Test(front_life, connections_and_refusals_are_counted)
{
    struct client client;

    front_set_stats(stage.front, stats_join());
    client = client_whole("GET x HTTP/1.1\r\nHost: a\r\n\r\n");
    client_close(&client);
    STAGE_UNTIL(front_connections(stage.front) == 0);
    client = client_connect();
    STAGE_UNTIL(front_connections(stage.front) == 1);
    cr_assert_eq(counted(STATS_client_connections_accepted, NULL), 2);
    cr_assert_eq(counted(STATS_client_connections, NULL), 1);
    cr_assert_eq(counted(STATS_refused_by_front, "400"), 1);
    client_close(&client);
}

Test(front_life, abort_ends_connections_in_every_state)
{
    struct client clients[6];

    memset(vast, 'v', sizeof(vast) - 1);
    for (int i = 0; i < 6; i++)
        clients[i] = client_connect();
    client_say(&clients[0], ECHO);
    client_await(&clients[0], "GET /echo a \n");
    client_say(&clients[1], WAIT);
    STAGE_UNTIL(stage.parked_count == 1);
    client_say(&clients[2], WAIT);
    STAGE_UNTIL(stage.parked_count == 2);
    stage_start(stage.parked[1], 200, -1);
    stage_send(stage.parked[1], vast, CLIENT_MORE); /* under way */
    client_say(&clients[3], WAIT);
    STAGE_UNTIL(stage.parked_count == 3);
    stage_start(stage.parked[2], 200, -1);
    stage_send(stage.parked[2], "part", CLIENT_MORE);
    client_await(&clients[3], "part"); /* between two pieces */
    client_say(&clients[4], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    STAGE_UNTIL(front_connections(stage.front) == 6);
    front_abort(stage.front);
    STAGE_UNTIL(front_connections(stage.front) == 0);
    cr_assert_eq(front_requests(stage.front), 0);
    cr_assert_eq(stage.gone, 4);
    for (int i = 0; i < 6; i++)
        client_close(&clients[i]);
}
