/* The resolver: what is known at once, what is looked up, and that asking may stop. Names here never leave
 * this machine. */
#include "clock.h"
#include "loop.h"
#include "resolver.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const struct resolved_address *address, int *port)
{
    static char text[INET6_ADDRSTRLEN];
    if (address->storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->storage;
        *port = ntohs(v4->sin_port);
        return inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->storage;
    *port = ntohs(v6->sin6_port);
    return inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
}

Test(resolver, an_address_is_known_at_once)
{
    static const char *const literals[] = {"127.0.0.1", "192.0.2.255", "::1", "2001:db8::1"};
    struct resolver *resolver = resolver_new(1);
    for (size_t i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
        struct resolved found;
        int port;
        cr_assert(resolver_knows(resolver, slice_text(literals[i]), 8080, &found));
        cr_assert_eq(found.count, 1);
        cr_expect_str_eq(text_of(&found.addresses[0], &port), literals[i]);
        cr_expect_eq(port, 8080);
    }
    resolver_free(resolver);
}

struct asked {
    struct resolver_ask *ask;
    int answers;
    bool is_starting;
    struct resolved found;
};

static void on_answer(void *arg, const struct resolved *answer)
{
    struct asked *asked = arg;
    cr_assert(!asked->is_starting);
    asked->answers++;
    asked->found = *answer;
    asked->ask = NULL;
}

static void ask(struct resolver *resolver, struct loop *loop, const char *name, struct asked *asked)
{
    asked->is_starting = true;
    asked->ask = resolver_start(resolver, loop, slice_text(name), 80, on_answer, asked);
    asked->is_starting = false;
}

static void wait_answer(struct loop *loop, struct asked *asked)
{
    int64_t until = clock_mono().ms + 20000;
    while (asked->answers == 0) {
        cr_assert(clock_mono().ms < until);
        loop_turn(loop, 10);
    }
    cr_expect_eq(asked->answers, 1);
}

Test(resolver, localhost_is_this_machine_and_is_kept)
{
    struct resolver *resolver = resolver_new(2);
    struct loop *loop = loop_new();
    struct asked asked = {0};
    struct resolved found;
    int port;
    cr_expect_not(resolver_knows(resolver, SLICE("localhost"), 80, &found));
    ask(resolver, loop, "localhost", &asked);
    wait_answer(loop, &asked);
    cr_assert_gt(asked.found.count, 0);
    const char *text = text_of(&asked.found.addresses[0], &port);
    cr_expect(strcmp(text, "127.0.0.1") == 0 || strcmp(text, "::1") == 0);
    cr_expect_eq(port, 80);
    cr_expect(resolver_knows(resolver, SLICE("localhost"), 81, &found));
    text_of(&found.addresses[0], &port);
    cr_expect_eq(port, 81, "the port is the asker's");
    resolver_free(resolver);
    loop_free(loop);
}

Test(resolver, what_is_known_is_not_told_inside_the_start_either)
{
    struct resolver *resolver = resolver_new(1);
    struct loop *loop = loop_new();
    struct asked asked = {0};
    ask(resolver, loop, "127.0.0.1", &asked);
    wait_answer(loop, &asked);
    cr_expect_eq(asked.found.count, 1);
    resolver_free(resolver);
    loop_free(loop);
}

Test(resolver, a_name_that_cannot_be_has_no_address)
{
    struct resolver *resolver = resolver_new(1);
    struct loop *loop = loop_new();
    char too_long[400];
    memset(too_long, 'a', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    const char *const names[] = {"", "no..such", "1.2.3.4.5.6..", too_long};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct asked asked = {0};
        ask(resolver, loop, names[i], &asked);
        wait_answer(loop, &asked);
        cr_expect_eq(asked.found.count, 0, "%.20s", names[i]);
    }
    resolver_free(resolver);
    loop_free(loop);
}

Test(resolver, everyone_who_asked_is_told_but_those_who_left)
{
    enum { MANY = 200 };
    struct resolver *resolver = resolver_new(2);
    struct loop *loop = loop_new();
    struct asked asked[MANY] = {0};
    for (int i = 0; i < MANY; i++)
        ask(resolver, loop, i % 3 == 0 ? "localhost" : i % 3 == 1 ? "LOCALHOST" : "no..such", &asked[i]);
    for (int i = 0; i < MANY; i += 5)
        resolver_cancel(&asked[i].ask);
    loop_turn(loop, 0);
    for (int i = 0; i < MANY; i += 7)
        if (asked[i].answers == 0)
            resolver_cancel(&asked[i].ask);
    for (int i = 0; i < MANY; i++)
        if (i % 5 != 0 && i % 7 != 0)
            wait_answer(loop, &asked[i]);
    for (int i = 0; i < MANY; i += 5)
        cr_expect_eq(asked[i].answers, 0);
    loop_turn(loop, 0);
    resolver_free(resolver);
    loop_free(loop);
}

Test(resolver, it_may_be_freed_while_a_thread_still_looks)
{
    struct loop *loop = loop_new();
    for (int i = 0; i < 50; i++) {
        struct resolver *resolver = resolver_new(3);
        struct asked asked = {0};
        ask(resolver, loop, "localhost", &asked);
        resolver_cancel(&asked.ask);
        resolver_free(resolver);
        loop_turn(loop, 0);
    }
    loop_free(loop);
}
