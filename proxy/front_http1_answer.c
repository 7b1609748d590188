/* Front, answer: how do an answer's head and pieces become bytes whose end the client can tell from a
 * failure?
 *
 * h2o's own chunking serves status 200 only, and lets other answers of unknown length end with the
 * connection, where an answer that broke looks whole. So we chunk ourselves, whatever the status. Where
 * nothing but the close can mark the end (HTTP/1.0), or all promised bytes have already left, a failure is a
 * reset.
 */
#include "front_http1.h"

#include "check.h"
#include "status_text.h"

#include <stdio.h>
#include <sys/socket.h>

static struct client_request *request_of(h2o_generator_t *generator)
{
    return H2O_STRUCT_FROM_MEMBER(struct client_request, generator, generator);
}

/* ---- back-pressure: a piece has left ---- */

static void tell_ready(struct client_request *request)
{
    if (request->connection->has_left) {
        answer_abandon(request);
        return;
    }
    if (request->on_ready != NULL)
        request->on_ready(request->ready_arg); /* may end it */
}

static void on_proceed(h2o_generator_t *generator, h2o_req_t *req)
{
    struct client_request *request = request_of(generator);

    (void)req;
    request->is_sending = false;
    tell_ready(request);
}

static void on_nothing_sent(void *arg)
{
    struct client_request *request = arg;

    request->is_sending = false;
    tell_ready(request);
}

/* ---- the head ---- */

static enum framing framing_for(const struct client_request *request, const struct response_head *head)
{
    const h2o_req_t *req = request->h2o;

    if (slice_eq(slice_of(req->input.method.base, req->input.method.len), SLICE("HEAD")) ||
        head->status == 204 || head->status == 304)
        return FRAMED_WITHOUT_BODY;
    if (head->content_length >= 0)
        return FRAMED_BY_LENGTH;
    return req->version == 0x101 ? FRAMED_IN_CHUNKS : FRAMED_BY_CLOSE;
}

void client_start(struct client_request *request, const struct response_head *head,
                  void (*on_ready)(void *arg), void *arg)
{
    h2o_req_t *req = request->h2o;

    CHECK(!request->is_started);
    CHECK(head->status >= 200 && head->status <= 999);
    request->is_started = true;
    request->on_ready = on_ready;
    request->ready_arg = arg;
    task_init(&request->say_ready, LOOP_SEND, on_nothing_sent, request);
    if (request->is_ended) /* the client has left, and its end is on its way */
        return;
    request->framing = framing_for(request, head);
    request->left_bytes = head->content_length;
    if (head->date.len == H2O_TIMESTR_RFC1123_LEN) /* any other would not fit where h2o has its own */
        memcpy(request->date, head->date.base, head->date.len);
    req->res.status = head->status;
    req->res.reason = status_text(head->status);
    if (head->content_length >= 0 && head->status != 204 && head->status != 304)
        req->res.content_length = (size_t)head->content_length;
    for (size_t i = 0; i < head->header_count; i++)
        h2o_add_header_by_str(&req->pool, &req->res.headers, head->headers[i].name.base,
                              head->headers[i].name.len, 0, NULL, head->headers[i].value.base,
                              head->headers[i].value.len);
    if (request->framing == FRAMED_IN_CHUNKS)
        h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_TRANSFER_ENCODING, NULL,
                       H2O_STRLIT("chunked"));
}

/* Hands the head to h2o, which writes it with the first piece. Its filters know nothing of our chunking and
 * would close the connection after any answer of unknown length. */
static void begin(struct client_request *request)
{
    h2o_req_t *req = request->h2o;
    bool is_persistent = req->http1_is_persistent != 0 && request->framing != FRAMED_BY_CLOSE &&
                         request->head.upgrade.base == NULL && !request->connection->front->is_draining;

    request->is_head_sent = true;
    request->generator.proceed = on_proceed;
    h2o_start_response(req, &request->generator);
    req->http1_is_persistent = is_persistent;
}

/* ---- the pieces ---- */

static size_t keep_pieces(const struct slice *pieces, size_t count, int64_t room_bytes, h2o_iovec_t *out,
                          int64_t *bytes_out)
{
    size_t kept = 0;

    *bytes_out = 0;
    for (size_t i = 0; i < count && *bytes_out < room_bytes; i++) {
        size_t len = pieces[i].len;

        if (len == 0)
            continue;
        if ((int64_t)len > room_bytes - *bytes_out)
            len = (size_t)(room_bytes - *bytes_out);
        out[kept++] = h2o_iovec_init((char *)(uintptr_t)pieces[i].base, len);
        *bytes_out += (int64_t)len;
    }
    return kept;
}

static size_t chunk(struct client_request *request, const struct slice *pieces, size_t count,
                    enum client_piece how, h2o_iovec_t *out)
{
    int64_t bytes;
    size_t kept = keep_pieces(pieces, count, INT64_MAX, out + 1, &bytes);

    if (kept == 0) {
        out[0] = h2o_iovec_init(H2O_STRLIT("0\r\n\r\n"));
        return how == CLIENT_LAST ? 1 : 0;
    }
    out[0].base = request->chunk_head;
    out[0].len = (size_t)snprintf(request->chunk_head, sizeof(request->chunk_head), "%llx\r\n",
                                  (unsigned long long)bytes);
    out[kept + 1] = h2o_iovec_init("\r\n0\r\n\r\n", how == CLIENT_LAST ? 7 : 2);
    return kept + 2;
}

/* What goes over the wire for these pieces. Turns `how` into CLIENT_BROKEN where the promised length is not
 * kept. */
static size_t frame(struct client_request *request, const struct slice *pieces, size_t count,
                    enum client_piece *how, h2o_iovec_t *out)
{
    int64_t bytes;
    size_t kept;

    switch (request->framing) {
    case FRAMED_WITHOUT_BODY: return 0;
    case FRAMED_IN_CHUNKS: return chunk(request, pieces, count, *how, out);
    case FRAMED_BY_CLOSE: return keep_pieces(pieces, count, INT64_MAX, out, &bytes);
    case FRAMED_BY_LENGTH: break;
    }
    kept = keep_pieces(pieces, count, request->left_bytes, out, &bytes);
    request->left_bytes -= bytes;
    if (*how == CLIENT_LAST && request->left_bytes > 0)
        *how = CLIENT_BROKEN;
    return kept;
}

/* Without a reset the client could take what it has for the whole answer. */
static bool failure_needs_reset(const struct client_request *request)
{
    switch (request->framing) {
    case FRAMED_IN_CHUNKS: return false;
    case FRAMED_BY_LENGTH: return request->left_bytes == 0;
    case FRAMED_BY_CLOSE:
    case FRAMED_WITHOUT_BODY: break;
    }
    return true;
}

static void reset_on_close(struct client_request *request)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    setsockopt(h2o_socket_get_fd(request->connection->sock), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static h2o_send_state_t state_for(enum client_piece how)
{
    switch (how) {
    case CLIENT_MORE: return H2O_SEND_STATE_IN_PROGRESS;
    case CLIENT_LAST: return H2O_SEND_STATE_FINAL;
    case CLIENT_BROKEN: break;
    }
    return H2O_SEND_STATE_ERROR;
}

/* h2o writes Date into every head, from a text that it renews when its clock has moved. An answer that was made
 * earlier bears its own date, so for the time of this one call that text is another. Nothing else is written
 * meanwhile: what a write leads to runs from the loop. */
static void send_dated(struct client_request *request, h2o_iovec_t *pieces, size_t count,
                       h2o_send_state_t state)
{
    h2o_context_t *context = &request->connection->front->context;
    h2o_timestamp_string_t *now, *then;

    h2o_get_timestamp(context, NULL, NULL); /* renewed now, if ever: not under our hands */
    now = context->_timestamp_cache.value;
    then = h2o_mem_alloc_shared(NULL, sizeof(*then), NULL);
    *then = *now;
    memcpy(then->rfc1123, request->date, sizeof(then->rfc1123));
    context->_timestamp_cache.value = then;
    h2o_send(request->h2o, pieces, count, state); /* may end the request */
    CHECK(context->_timestamp_cache.value == then);
    context->_timestamp_cache.value = now;
    h2o_mem_release_shared(then); /* the request's pool may hold it, too */
}

void client_send(struct client_request *request, const struct slice *pieces, size_t count,
                 enum client_piece how)
{
    struct connection *c = request->connection;
    h2o_iovec_t out[CLIENT_MAX_PIECES + 2];
    size_t out_count;
    bool is_dated;

    CHECK(request->is_started);
    if (request->is_ended && c->has_left)
        return;
    CHECK(!request->is_ended && !request->is_sending);
    CHECK(count <= CLIENT_MAX_PIECES);
    out_count = frame(request, pieces, count, &how, out);
    request->is_sending = true;
    if (how != CLIENT_MORE) {
        request->is_ended = true;
        connection_unwatch(c); /* h2o reads again when this has left */
    }
    if (how == CLIENT_BROKEN && failure_needs_reset(request))
        reset_on_close(request);
    is_dated = !request->is_head_sent && request->date[0] != '\0';
    if (!request->is_head_sent) {
        begin(request);
    } else if (out_count == 0 && how == CLIENT_MORE) { /* h2o would take no bytes for the end */
        loop_defer(c->front->loop, &request->say_ready);
        return;
    }
    c->is_sampled = false;
    connection_check_within(c, c->front->limits.write_timeout_ms / 4 + 1);
    if (is_dated)
        send_dated(request, out, out_count, state_for(how));
    else
        h2o_send(request->h2o, out, out_count, state_for(how));
}

void answer_abandon(struct client_request *request)
{
    h2o_req_t *req = request->h2o;

    if (request->is_ended)
        return;
    request->is_ended = true;
    task_cancel(request->connection->front->loop, &request->say_ready);
    if (!request->is_head_sent) { /* it goes to a closed socket; h2o ends a request only by answering it */
        req->res.status = 502;
        req->res.reason = status_text(502);
        req->res.content_length = 0;
        begin(request);
    }
    h2o_send(req, NULL, 0, H2O_SEND_STATE_ERROR);
}
