/* Front tunnel: a client's connection that carries another protocol, and every way in which it ends. */
#include "support_front.h"

#include "clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ASK "GET /wait HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n"

TestSuite(front_tunnel, .init = stage_open, .fini = stage_close, .timeout = 60);

static struct {
    char got[64];
    size_t total;
    int finished, sent;
    bool goes_on, closes_in_bytes;
} end;

static void on_bytes(void *arg, struct slice bytes)
{
    struct client_request *request = arg;

    cr_assert_lt(end.total + bytes.len, sizeof(end.got));
    memcpy(end.got + end.total, bytes.base, bytes.len);
    end.total += bytes.len;
    if (end.closes_in_bytes)
        client_tunnel_close(request, false);
    else if (end.goes_on)
        client_tunnel_go_on(request);
}

static void on_finished(void *arg)
{
    (void)arg;
    end.finished++;
}

static void on_sent(void *arg)
{
    if (end.sent++ == 0)
        client_tunnel_go_on(arg);
}

static struct client_request *open_tunnel(struct client *client, const char *words)
{
    static const struct client_tunnel_events events = {on_bytes, on_finished, on_sent};
    static const struct header headers[] = {{{"upgrade", 7}, {"chat", 4}}, {{"x-more", 6}, {"yes", 3}}};
    struct client_request *request;

    memset(&end, 0, sizeof(end));
    end.goes_on = true;
    *client = client_connect();
    client_say(client, words);
    STAGE_UNTIL(stage.parked_count == 1);
    request = stage.parked[0];
    cr_assert(slice_eq(client_head(request)->upgrade, SLICE("chat")));
    client_switch(request, headers, 2, &events, request);
    cr_assert_eq(end.sent, 0, "never inside");
    STAGE_UNTIL(end.sent == 1);
    client_await(client, "\r\n\r\n");
    cr_assert_str_eq(
        client->got,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nupgrade: chat\r\nx-more: yes\r\n\r\n");
    return request;
}

Test(front_tunnel, bytes_pass_both_ways_and_each_half_ends_by_itself)
{
    struct client client;
    struct client_request *request = open_tunnel(&client, ASK "early");

    STAGE_UNTIL(end.total == 5);
    client_say(&client, "later");
    STAGE_UNTIL(end.total == 10);
    cr_assert_eq(memcmp(end.got, "earlylater", 10), 0);
    shutdown(client.fd, SHUT_WR);
    STAGE_UNTIL(end.finished == 1);
    client_tunnel_send(request, SLICE("still there"));
    STAGE_UNTIL(end.sent == 2);
    client_await(&client, "still there");
    client_tunnel_finish(request);
    client_await_end(&client);
    cr_assert_not(client.is_reset);
    cr_assert_eq(stage.gone, 0, "it ends when it is told to");
    client_tunnel_close(request, false);
    STAGE_UNTIL(stage.gone == 1);
    client_close(&client);
}

Test(front_tunnel, nothing_is_read_before_what_was_read_is_taken)
{
    struct client client;
    struct client_request *request = open_tunnel(&client, ASK);

    end.goes_on = false;
    client_say(&client, "one");
    STAGE_UNTIL(end.total == 3);
    client_say(&client, "two");
    for (int i = 0; i < 10; i++)
        stage_turn();
    cr_assert_eq(end.total, 3);
    client_tunnel_go_on(request);
    STAGE_UNTIL(end.total == 6);
    client_tunnel_close(request, false);
    client_await_end(&client);
    client_close(&client);
}

Test(front_tunnel, it_may_be_closed_in_the_midst_of_being_told)
{
    struct client client;

    open_tunnel(&client, ASK);
    end.closes_in_bytes = true;
    client_say(&client, "one");
    client_await_end(&client);
    STAGE_UNTIL(stage.gone == 1);
    client_close(&client);
}

Test(front_tunnel, a_broken_tunnel_is_reset)
{
    struct client client;
    struct client_request *request = open_tunnel(&client, ASK);

    client_tunnel_close(request, true);
    client_await_end(&client);
    cr_assert(client.is_reset);
    STAGE_UNTIL(stage.gone == 1);
    client_close(&client);
}

Test(front_tunnel, a_client_that_breaks_off_is_gone)
{
    struct client client;
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    open_tunnel(&client, ASK);
    setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    client_close(&client);
    STAGE_UNTIL(stage.gone == 1);
    cr_assert_eq(end.finished, 0);
}

Test(front_tunnel, a_client_that_breaks_off_during_a_write_is_gone)
{
    static char much[4 << 20];
    struct client client;
    struct client_request *request = open_tunnel(&client, ASK);
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    client_tunnel_send(request, slice_of(much, sizeof(much)));
    for (int i = 0; i < 5; i++)
        stage_turn();
    cr_assert_eq(end.sent, 1, "it does not fit");
    setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    client_close(&client);
    STAGE_UNTIL(stage.gone == 1);
}

Test(front_tunnel, an_abort_ends_it_in_the_midst_of_a_write)
{
    static char much[4 << 20];
    struct client client;
    struct client_request *request = open_tunnel(&client, ASK);

    client_tunnel_send(request, slice_of(much, sizeof(much)));
    stage_turn();
    front_abort(stage.front);
    STAGE_UNTIL(stage.gone == 1);
    client_close(&client);
}

Test(front_tunnel, any_other_answer_ends_the_connection)
{
    struct client client = client_connect();

    client_say(
        &client,
        "GET /wait HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: chat\r\n\r\n"
        "GET /behind HTTP/1.1\r\nHost: a.test\r\n\r\n");
    STAGE_UNTIL(stage.parked_count == 1);
    stage_answer(stage.parked[0], 403, "no");
    client_await_end(&client);
    cr_assert_not_null(strstr(client.got, "Connection: close"));
    cr_assert_eq(stage.shown, 1, "what is behind it is not read as a request");
    client_close(&client);
}
