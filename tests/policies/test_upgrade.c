/* Upgrade: what a client may ask the upstream to speak, and what counts as its consent. */
#include "upgrade.h"

#include <criterion/criterion.h>
#include <string.h>

Test(upgrade, what_would_be_http_behind_our_back_does_not_pass)
{
    static const struct {
        const char *why, *asked, *passes;
    } rows[] = {
        {"WebSocket", "websocket", "websocket"},
        {"in its own spelling", "WebSocket", "WebSocket"},
        {"any other, with a version", "IRC/6.9, RTA/x11", "IRC/6.9,RTA/x11"},
        {"HTTP/2 in clear", "h2c", ""},
        {"its drafts", "h2c-14", ""},
        {"in capitals", "H2C", ""},
        {"HTTP/2 by its name over TLS", "h2", ""},
        {"HTTP/3", "h3", ""},
        {"HTTP of any version", "HTTP/2.0, http/1.1", ""},
        {"TLS, in which anything could be said", "TLS/1.0", ""},
        {"what is left of a list", "h2c, websocket , TLS/1.2", "websocket"},
        {"a name that only begins like them", "httpx, tls-chat", "httpx,tls-chat"},
        {"empty places", ", ,websocket,", "websocket"},
        {"nothing", "", ""},
        {"no list of protocols", "web socket", ""},
        {"no version", "websocket/", ""},
        {"two versions", "a/b/c", ""},
        {"something hidden in it", "websocket\r\nX: y", ""},
        {"one bad place spoils all: who knows what it meant", "websocket, \"q\"", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char room[128];
        struct text text = text_in(room, sizeof(room));
        struct slice got;

        upgrade_write(slice_of(rows[i].asked, strlen(rows[i].asked)), &text);
        cr_assert(text_fits(&text));
        got = text_slice(&text);
        cr_expect(slice_eq(got, slice_of(rows[i].passes, strlen(rows[i].passes))), "%s: '%.*s'", rows[i].why,
                  (int)got.len, got.base);
    }
}

Test(upgrade, an_answer_agrees_to_one_thing_that_was_asked)
{
    static const struct {
        const char *why, *asked, *connection, *upgrade, *more;
        bool agrees;
    } rows[] = {
        {"to the only one", "websocket", "Upgrade", "websocket", NULL, true},
        {"in another case", "websocket", "keep-alive, UPGRADE", "WebSocket", NULL, true},
        {"to the second", "a/1,b/2", "upgrade", "b/2", NULL, true},
        {"to another version", "a/1", "upgrade", "a/2", NULL, false},
        {"to what nobody asked for", "websocket", "upgrade", "h2c", NULL, false},
        {"to two at once", "a,b", "upgrade", "a,b", NULL, false},
        {"in two fields", "a,b", "upgrade", "a", "b", false},
        {"but Connection does not say so", "websocket", "keep-alive", "websocket", NULL, false},
        {"to nothing", "websocket", "upgrade", "", NULL, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[3] = {
            {SLICE("connection"), slice_of(rows[i].connection, strlen(rows[i].connection))},
            {SLICE("upgrade"), slice_of(rows[i].upgrade, strlen(rows[i].upgrade))},
        };
        size_t count = 2;

        if (rows[i].more != NULL)
            headers[count++] =
                (struct header){SLICE("upgrade"), slice_of(rows[i].more, strlen(rows[i].more))};
        cr_expect_eq(upgrade_agreed(slice_of(rows[i].asked, strlen(rows[i].asked)), headers, count).base !=
                         NULL,
                     rows[i].agrees, "%s", rows[i].why);
    }
    cr_expect_null(upgrade_agreed(SLICE("a"), NULL, 0).base);
}
