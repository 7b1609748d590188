/* Respond: see respond.h. */
#include "respond.h"

static struct slice copy(char **to, struct slice from)
{
    struct slice made = slice_of(*to, from.len);

    if (from.len > 0)
        memcpy(*to, from.base, from.len);
    *to += from.len;
    return made;
}

/* Nothing more is to be said after the only send. */
static void on_ready(void *arg)
{
    (void)arg;
}

void respond(struct client_request *client, int status, const struct header *fields, size_t count,
             struct slice body)
{
    size_t bytes = body.len;
    struct header *own = client_alloc(client, (count + 1) * sizeof(*own));
    struct response_head head = {status, own, count, (int64_t)body.len, {NULL, 0}};
    char *text;

    for (size_t i = 0; i < count; i++)
        bytes += fields[i].name.len + fields[i].value.len;
    text = client_alloc(client, bytes + 1);
    for (size_t i = 0; i < count; i++)
        own[i] = (struct header){copy(&text, fields[i].name), copy(&text, fields[i].value)};
    body = copy(&text, body);
    client_start(client, &head, on_ready, NULL);
    client_send(client, &body, body.len > 0 ? 1 : 0, CLIENT_LAST);
}
