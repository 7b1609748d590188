/* Origin request: see origin_request.h. Measured first, then written, so that there is one allocation. */
#include "origin_request.h"
#include "check.h"
#include "http_char.h"
#include "memory.h"
#include "text.h"

static bool is_visible(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.base[i] <= ' ' || text.base[i] == 0x7f)
            return false;
    return text.len > 0;
}

/* RFC 9110 section 8.6: a method that expects a body says that there is none. */
static bool states_length(const struct origin_request *request)
{
    return request->body.base != NULL || slice_eq(request->method, SLICE("POST")) ||
           slice_eq(request->method, SLICE("PUT")) || slice_eq(request->method, SLICE("PATCH"));
}

static void add_field(struct text *text, struct slice name, struct slice value)
{
    text_add(text, name);
    text_add(text, SLICE(": "));
    text_add(text, value);
    text_add(text, SLICE("\r\n"));
}

static size_t write_head(const struct origin_request *request, char *room, size_t room_bytes)
{
    struct text text = text_in(room, room_bytes);

    text_add(&text, request->method);
    text_add_char(&text, ' ');
    text_add(&text, request->target);
    text_add(&text, SLICE(" HTTP/1.1\r\n"));
    add_field(&text, SLICE("host"), request->authority);
    for (size_t i = 0; i < request->header_count; i++)
        if (is_token(request->headers[i].name) && is_value(request->headers[i].value))
            add_field(&text, request->headers[i].name, request->headers[i].value);
    if (request->upgrade.base != NULL) {
        add_field(&text, SLICE("connection"), SLICE("upgrade"));
        add_field(&text, SLICE("upgrade"), request->upgrade);
    }
    if (states_length(request)) {
        text_add(&text, SLICE("content-length: "));
        text_add_int(&text, (int64_t)request->body.len);
        text_add(&text, SLICE("\r\n"));
    }
    text_add(&text, SLICE("\r\n"));
    return text.len;
}

char *origin_request_write(const struct origin_request *request, size_t *len_out)
{
    if (!is_token(request->method) || !is_visible(request->target) || !is_visible(request->authority))
        return NULL;
    size_t len = write_head(request, NULL, 0);
    char *head = must_alloc(len);
    CHECK(write_head(request, head, len) == len);
    *len_out = len;
    return head;
}
