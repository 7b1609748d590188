/* Front, request: which requests are shown to the story, and what are the others told?
 *
 * libh2o's parser accepts what another may read differently, and takes the framing fields out before we see
 * them. So the raw head, which still lies at the start of the socket's input, is read a second time by
 * request_check(). Nothing is decided in the parser's callback but a refusal: sound requests are queued for
 * LOOP_ARRIVE, and those whose client has left by then were never there.
 */
#include "front_http1.h"

#include "check.h"
#include "http_char.h"
#include "problem.h"
#include "request_check.h"
#include "status_text.h"
#include "text.h"
#include "upgrade.h"

struct connection *connection_of(h2o_req_t *req)
{
    return req->conn->callbacks->get_socket(req->conn)->on_close.data;
}

/* The one place where a request ends: h2o releases what hangs on its pool. */
static void on_disposed(void *arg)
{
    struct client_request *request = arg;
    struct connection *c = request->connection;

    CHECK(c->request == request);
    list_leave(&request->arrival);
    task_cancel(c->front->loop, &request->say_ready);
    tunnel_dispose(request);
    connection_unwatch(c);
    if (request->lingers)
        linger_begin(c->front, h2o_socket_get_fd(c->sock));
    c->request = NULL;
    c->front->request_count--;
    connection_enter(c, AWAITS_REQUEST);
    connection_unsettle(c);
    if (request->gone != NULL)
        request->gone(request->gone_arg);
}

static struct client_request *request_new(struct connection *c, h2o_req_t *req)
{
    struct client_request *request = h2o_mem_alloc_shared(&req->pool, sizeof(*request), on_disposed);

    memset(request, 0, sizeof(*request));
    request->h2o = req;
    request->connection = c;
    list_init(&request->arrival);
    CHECK(c->request == NULL);
    c->request = request;
    c->had_request = true;
    c->front->request_count++;
    connection_enter(c, ANSWERS);
    return request;
}

/* ---- refusals ---- */

const char *front_refusal_code(int status)
{
    switch (status) {
    case 408: return "request_timeout";
    case 413: return "body_too_large";
    case 414: return "target_too_long";
    case 431: return "headers_too_large";
    case 501: return "method_not_supported";
    case 503: return "too_many_connections";
    }
    return "malformed_request";
}

size_t refusal_write(int status, const char *why, char *out, size_t room)
{
    char body[PROBLEM_ROOM];
    size_t len = problem_body(status, front_refusal_code(status), why, body, sizeof(body));
    struct text text = text_in(out, room);

    text_add(&text, SLICE("HTTP/1.1 "));
    text_add_int(&text, status);
    text_add_char(&text, ' ');
    text_add(&text, slice_text(status_text(status)));
    text_add(
        &text,
        SLICE("\r\nConnection: close\r\ncache-control: no-store\r\ncontent-type: application/problem+json\r\n"
              "Content-Length: "));
    text_add_int(&text, (int64_t)len);
    text_add(&text, SLICE("\r\n\r\n"));
    text_add(&text, slice_of(body, len));
    CHECK(text_fits(&text)); /* all of it is ours */
    return text.len;
}

static const struct header refusal_headers[] = {
    {{"content-type", 12}, {"application/problem+json", 24}},
    {{"cache-control", 13}, {"no-store", 8}},
};

static void refuse(struct client_request *request, int status, const char *why)
{
    struct connection *c = request->connection;
    char *body = client_alloc(request, PROBLEM_ROOM);
    struct slice piece = {body, problem_body(status, front_refusal_code(status), why, body, PROBLEM_ROOM)};
    struct response_head head = {.status = status,
                                 .headers = refusal_headers,
                                 .header_count = 2,
                                 .content_length = (int64_t)piece.len};

    front_refused(c->front, status, why, slice_of(c->peer_text, c->peer_text_len));
    request->h2o->http1_is_persistent = 0; /* h2o then drops the bytes behind this request */
    request->lingers = true;
    client_start(request, &head, NULL, NULL);
    client_send(request, &piece, 1, CLIENT_LAST);
}

/* ---- what h2o refuses by itself, before it shows the request: its words are replaced by ours ---- */

struct replaced_body {
    h2o_ostream_t super;
    char body[PROBLEM_ROOM];
    size_t len;
};

static void send_replaced(h2o_ostream_t *self, h2o_req_t *req, h2o_iovec_t *bufs, size_t count,
                          h2o_send_state_t state)
{
    struct replaced_body *replaced = (struct replaced_body *)self;
    h2o_iovec_t ours = h2o_iovec_init(replaced->body, replaced->len);

    (void)bufs;
    h2o_ostream_send_next(self, req, &ours, count > 0 ? 1 : 0, state);
}

static const char *h2o_refusal_text(int status)
{
    switch (status) {
    case 413: return "the request's body is too large";
    case 417: return "the request expects what is not supported";
    }
    return "the request's body is malformed";
}

static void on_response_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot)
{
    struct connection *c = connection_of(req);

    (void)self;
    if (c->request == NULL) {
        struct replaced_body *replaced =
            (struct replaced_body *)h2o_add_ostream(req, sizeof(*replaced), slot);

        replaced->super.do_send = send_replaced;
        replaced->len =
            problem_body(req->res.status, front_refusal_code(req->res.status),
                         h2o_refusal_text(req->res.status), replaced->body, sizeof(replaced->body));
        req->res.reason = status_text(req->res.status);
        req->res.content_length = replaced->len;
        memset(&req->res.headers, 0, sizeof(req->res.headers));
        for (size_t i = 0; i < sizeof(refusal_headers) / sizeof(refusal_headers[0]); i++)
            h2o_add_header_by_str(&req->pool, &req->res.headers, refusal_headers[i].name.base,
                                  refusal_headers[i].name.len, 0, NULL, refusal_headers[i].value.base,
                                  refusal_headers[i].value.len);
        slot = &replaced->super.next;
    }
    h2o_setup_next_ostream(req, slot);
}

/* Runs when h2o ends a request, before what hangs on its pool is released. */
static void on_h2o_ends(h2o_logger_t *self, h2o_req_t *req)
{
    struct connection *c = connection_of(req);

    (void)self;
    if (c->request != NULL)
        return;
    c->may_be_refused = false;
    front_refused(c->front, req->res.status, h2o_refusal_text(req->res.status),
                  slice_of(c->peer_text, c->peer_text_len));
    linger_begin(c->front, h2o_socket_get_fd(c->sock));
}

/* ---- sound requests ---- */

static struct slice authority_of(struct client_request *request, struct slice raw, bool is_tls)
{
    char *out;

    if (raw.len == 0)
        return raw;
    out = h2o_mem_alloc_pool(&request->h2o->pool, raw.len);
    return slice_of(out, authority_write(raw, is_tls, out));
}

static void fill_headers(struct client_request *request)
{
    const h2o_headers_t *from = &request->h2o->headers;
    struct header *to =
        from->size == 0 ? NULL : h2o_mem_alloc_pool(&request->h2o->pool, from->size * sizeof(*to));

    for (size_t i = 0; i < from->size; i++) {
        const h2o_header_t *header = &from->entries[i];

        to[i].name = slice_of(header->name->base, header->name->len);
        to[i].value = slice_trim(slice_of(header->value.base, header->value.len));
    }
    request->head.headers = to;
    request->head.header_count = from->size;
}

/* A connection of TLS is read by h2o alone, so there is nothing to make a tunnel of. */
static struct slice upgrade_of(struct client_request *request, struct slice asked, bool is_tls)
{
    struct text text;

    if (asked.base == NULL || is_tls)
        return slice_of(NULL, 0);
    text = text_in(h2o_mem_alloc_pool(&request->h2o->pool, asked.len), asked.len);
    upgrade_write(asked, &text);
    return text.len == 0 ? slice_of(NULL, 0) : text_slice(&text);
}

static void fill_head(struct client_request *request, const struct request_facts *facts, bool is_tls)
{
    struct connection *c = request->connection;
    struct request_head *head = &request->head;

    head->method = facts->method;
    head->target = facts->target;
    head->authority = authority_of(request, facts->authority, is_tls);
    head->is_tls = is_tls;
    head->is_http10 = facts->is_http10;
    fill_headers(request);
    head->body = slice_of(request->h2o->entity.base, request->h2o->entity.len);
    head->upgrade = upgrade_of(request, facts->upgrade, is_tls);
    head->peer = &c->address.any;
    head->peer_text = slice_of(c->peer_text, c->peer_text_len);
}

/* What the client has already sent behind a sound request. */
static struct slice behind(const h2o_req_t *req, struct slice raw, const struct request_facts *facts)
{
    const char *end =
        req->entity.base == NULL ? raw.base + facts->head_bytes : req->entity.base + req->entity.len;

    return slice_of(end, (size_t)(raw.base + raw.len - end));
}

static int on_req(h2o_handler_t *self, h2o_req_t *req)
{
    struct connection *c = connection_of(req);
    struct front *front = c->front;
    struct client_request *request = request_new(c, req);
    struct slice raw = slice_of(c->sock->input->bytes, c->sock->input->size);
    struct request_bounds bounds = {.max_head_bytes = front->limits.max_header_bytes,
                                    .max_headers = (size_t)front->limits.max_headers,
                                    .max_target_bytes = REQUEST_MAX_TARGET_BYTES};
    bool is_tls = c->sock->ssl != NULL;
    struct request_facts facts;
    enum request_flaw flaw = request_check(raw, is_tls, &bounds, &facts);

    (void)self;
    if (flaw != REQUEST_SOUND) {
        refuse(request, request_flaw_status(flaw), request_flaw_text(flaw));
    } else if (req->entity.len > front->limits.max_body_bytes) {
        refuse(request, 413, "the request's body is too large");
    } else {
        request->early = behind(req, raw, &facts);
        if (chunks_are_ahead(&request->early))
            req->http1_is_persistent = 0; /* its client must ask again, on a connection of which we see all */
        fill_head(request, &facts, is_tls);
        list_append(&front->arrivals, &request->arrival);
        loop_defer(front->loop, &front->arrive);
    }
    return 0;
}

void requests_arrive(void *arg)
{
    struct front *front = arg;

    while (!list_is_empty(&front->arrivals)) {
        struct client_request *request = LIST_OWNER(front->arrivals.next, struct client_request, arrival);

        list_leave(&request->arrival);
        connection_unsettle(request->connection);
        front->app.on_request(front->app.app, request); /* may end it */
    }
}

static void register_on(h2o_pathconf_t *path)
{
    h2o_create_handler(path, sizeof(h2o_handler_t))->on_req = on_req;
    h2o_create_filter(path, sizeof(h2o_filter_t))->on_setup_ostream = on_response_setup;
    h2o_create_logger(path, sizeof(h2o_logger_t))->log_access = on_h2o_ends;
}

void requests_register(struct front *front, h2o_hostconf_t *host)
{
    (void)front;
    register_on(h2o_config_register_path(host, "/", 0));
    register_on(&host->fallback_path);
}

/* ---- what the story asks of a request ---- */

const struct request_head *client_head(const struct client_request *request)
{
    return &request->head;
}

void *client_alloc(struct client_request *request, size_t bytes)
{
    void *fresh = h2o_mem_alloc_pool(&request->h2o->pool, bytes);

    memset(fresh, 0, bytes);
    return fresh;
}

void client_on_gone(struct client_request *request, void (*gone)(void *arg), void *arg)
{
    CHECK(request->gone == NULL);
    request->gone = gone;
    request->gone_arg = arg;
}
