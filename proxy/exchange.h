/* Exchange: one client's request, from its arrival to the last byte of its answer. The table of contents of
 * the story.
 *
 *   identify  which route, from which address?                        stage_identify.c
 *             who is asking, what does it cost?                       stage_charge.c
 *   limit     by which plans; all limits in one decision; refuse?     stage_limit.c
 *   lookup    near cache, then store; lead, ride or go alone          stage_lookup.c
 *   pay       limits that count misses, before the upstream is asked  stage_pay.c; flight_pay.c for loads
 *   fetch     the upstream, alone                                     stage_fetch.c
 *             what it makes untrue is invalidated                     stage_change.c, stage_uri.c
 *   deliver   head, body, a client that leaves                        stage_deliver.c, stage_shape.c, stage_parts.c, stage_unpack.c
 *   tunnel    where upstream and client change the protocol: bytes    stage_tunnel.c
 *   refused   by a limit: the stored copy, its turn later, or 429     stage_refused.c, stage_wait.c
 *   refuse    our own answers                                         stage_refuse.c
 *   settle    what did it cost, where the answer tells that?          stage_settle.c
 *   account   one log line and the counters, whatever happened        stage_account.c
 *
 * An exchange lives in its request's memory; its disposal is registered first and is the only cleanup. Stages
 * that end the exchange do so as their last statement.
 */
#ifndef WEIR_EXCHANGE_H
#define WEIR_EXCHANGE_H

#include "conditional.h"
#include "flight.h"
#include "front.h"
#include "group_tags.h"
#include "identity.h"
#include "invalidator.h"
#include "limiter.h"
#include "planner.h"
#include "range.h"
#include "ratelimit_fields.h"
#include "reuse.h"
#include "story.h"
#include "stream.h"
#include "waits.h"

enum stage {
    STAGE_BORN,
    STAGE_LIMITING,
    STAGE_LOOKING,
    STAGE_FETCHING,
    STAGE_DELIVERING,
    STAGE_TUNNELLING, /* the protocol has changed */
    STAGE_ANSWERED,   /* the last piece was given to the front */
    STAGE_GONE,
    STAGES
};

enum { INVALIDATES_MAX = 16, TAG_ROOM = 1024 };

struct exchange;

/* `copy`, held for whoever is told, or NULL: what is stored for the request, of whatever age. */
typedef void look_done(struct exchange *exchange, struct object *copy);

struct exchange {
    struct story *story;
    struct site *site; /* held: the configuration this request began with */
    struct client_request *client;
    const struct request_head *head;
    enum stage stage;

    /* identify */
    struct header *fields; /* the request's, without hop-by-hop ones */
    size_t field_count;
    struct slice path, query; /* the path in its one spelling */
    const struct route_rule *route;
    struct route_values values;
    struct address address; /* the client's, behind trusted proxies */
    bool peer_is_trusted;

    /* limit */
    struct limit_request limits;
    struct limit_request
        *bill; /* of limits that count misses: to be paid before the upstream is asked; NULL: none */
    const struct limit_request *refusal; /* which of the two was refused; NULL: none */
    struct waiter waiter;                /* its place in line, while it waits */
    struct limit_request *waits_for;     /* what it is to ask again; NULL: it does not wait */
    const struct limit_rule *waits_at;
    struct plan_request *plans; /* NULL: no charge depends on a plan */

    /* lookup, fetch */
    struct reuse_wish wish;
    struct conditions conditions;
    struct slice range; /* base NULL: none */
    struct slice part;  /* the range, in its one spelling, where it may be loaded alone; else base NULL */
    bool cuts_part;     /* what is delivered is a part that holds more than was asked for */
    bool is_shaped;     /* conditions and range are ours to obey: the upstream is not told of them */
    struct load_plan plan;
    struct rider rider;
    struct store_call *look; /* at what is stored, which loads nothing */
    look_done *looked;       /* who wants to know */
    bool is_last_hop;        /* it may not be passed on: the answer is ours */
    bool has_key;
    struct key32 own_key;         /* where has_key: the plan's, before Vary or a range leads to another */
    struct object *basis;         /* held: the upstream is asked whether it is still the same */
    struct stream *alone;         /* owned */
    struct slice alone_authority; /* the host that it was asked for */
    struct slice *change_tags;    /* what the request invalidates, if it comes about */
    size_t change_tag_count, soft_change_count; /* the first are invalidated softly */
    struct asked_tags *asked_tags; /* owned: what it invalidates besides is in the answer; NULL: nothing */
    struct timer body_patience;    /* while that is awaited: */
    bool awaits_body;
    struct invalidation *invalidation;
    bool is_cache_route, goes_alone;
    bool is_judged, passes_cache; /* by passes_cache_by() */
    const char *passing_why;      /* a token for Cache-Status, or NULL */

    /* deliver */
    struct object *object; /* held */
    size_t object_block;
    struct parts *parts; /* NULL: not several */
    bool has_window;     /* only a part of the body is sent: */
    int64_t skip_bytes, left_bytes;
    struct unpacker *unpacker; /* owned: the object is kept compressed, and the client gets it plain */
    char *plain_room;          /* what of it is being sent */
    struct timer unpack_next;  /* the client does not want what comes first: go on in the next turn */
    int origin_status;         /* what the upstream said, where it was asked; else 0 */
    struct stream_reader reader;
    struct task first_pump;
    bool is_started, is_sending;
    enum cache_result result;
    bool has_result; /* the cache was asked, or is said to be passed by */
    enum cache_forward forward;
    const char *cache_detail;
    bool is_stored, was_deferred, lacks_tags;

    struct exchange_tunnel *tunnel; /* in the request's memory; NULL: none */

    /* account */
    int64_t began_us, upstream_us;
    int64_t limit_wait_us, wait_began_us; /* the former until limits let it pass, in all */
    int64_t opened_us;                    /* from the request to its tunnel */
    int status;
    int64_t body_bytes, received_bytes; /* the latter: through a tunnel */
    const char *code, *refusing_limit;
};

/* Why a request cannot be charged: it lacks a key, or what it says of its cost is not allowed. */
struct objection {
    const struct limit_rule *limit; /* NULL: none */
    enum refusal_kind kind;
    struct slice words; /* beyond the kind's own; the limit's name is to follow. Memory is the client's */
};

void exchange_begin(void *story, struct client_request *client); /* a front_app's on_request */
void move_to(struct exchange *exchange, enum stage stage);

void stage_identify(struct exchange *exchange);
struct objection charge_limits(struct exchange *exchange); /* fills exchange->limits.charges */
void stage_limit(struct exchange *exchange);
void ask_limits(struct exchange *exchange);
/* By which plans is it decided now? True: that is settled; else `settled` runs later. */
bool settle_plans(struct exchange *exchange, void (*settled)(void *exchange));
void stage_lookup(struct exchange *exchange);
void look_up_again(struct exchange *exchange); /* it could not pay for what it found missing */
/* For a copy without taking the right to load it. `done` may run inside this call, and may end the exchange. */
void look_for_copy(struct exchange *exchange, look_done *done);
void deliver_copy(struct exchange *exchange, struct object *copy /* taken */);
/* May it be given to this request where the upstream may not be asked? Fresh, or within either of the windows in which it may be served
 * stale (RFC 9111 section 4.2.4, RFC 5861), unless the request wants it fresher. What must be validated before each use has no windows. */
bool may_stand_in(const struct exchange *exchange, const struct object *copy);
bool passes_cache_by(struct exchange *exchange); /* as far as the request alone can tell */
void stage_pay(struct exchange *exchange);       /* alone: then fetches */
void stage_fetch(struct exchange *exchange);     /* alone, and paid for */
void stage_fetch_left(
    struct exchange *exchange); /* its client has left: what becomes of the upstream request? */
/* stage_change.c, in the course of a fetch. */
void change_expand(struct exchange *exchange);   /* what would the request change? */
void change_answered(struct exchange *exchange); /* the head came: invalidate, then deliver */
void change_body_came(struct exchange *exchange,
                      bool is_whole);            /* what was awaited; nothing where nothing was */
void change_in_doubt(struct exchange *exchange); /* no head will come */
void stage_inform(void *exchange, const struct origin_response *interim); /* the client gets it at once */
void stage_deliver_object(struct exchange *exchange, struct object *object /* taken */);
void stage_deliver_stream(struct exchange *exchange, struct stream *stream);
void stage_tunnel(struct exchange *exchange); /* the upstream has answered 101, as it was asked to */
void stage_tunnel_left(struct exchange *exchange);
void stage_account(struct exchange *exchange);

/* What of the request's limits the upstream's answer tells the cost of, is settled as soon as that is known. */
void stage_settle_head(struct exchange *exchange, const struct header *headers, size_t count);
void stage_settle_landed(struct exchange *exchange); /* what was loaded for it, or for others */
void stage_settle_left(struct exchange *exchange);   /* it is over */

/* `by`, one of the exchange's own requests to the limiter, was not admitted: what follows. */
void stage_refused(struct exchange *exchange, struct limit_request *by);
/* Its client waits until its turn comes to ask `request` of the limiter again; false: it does not.
 *   stage_wait    it was refused
 *   wait_behind   it was not asked yet; false, too, where nobody is in line before it: then ask */
bool stage_wait(struct exchange *exchange, struct limit_request *request);
bool wait_behind(struct exchange *exchange, struct limit_request *request);
void let_others_try(struct exchange *exchange); /* what it held is being given back */
void wait_no_longer(
    struct exchange *exchange); /* it passed, or is told, or is gone; fine when it does not wait */
void refuse_by_limit(struct exchange *exchange, const struct limit_request *by);
void refuse_objection(struct exchange *exchange, const struct objection *objection);
void refuse_fault(struct exchange *exchange, enum fault fault);
void refuse_upstream_status(struct exchange *exchange, int status); /* another's load failed so */
void refuse(struct exchange *exchange, int status, const char *code, const char *detail);
void answer_as_last_hop(struct exchange *exchange);

/* The first route for such a request to this host, or NULL. `path` is in its one spelling. */
const struct route_rule *route_for(struct exchange *exchange, struct slice method, struct slice path,
                                   struct route_values *values);

/* The tag of what `rule` stores of this target; base NULL where it is too long to be stored at all. Memory is the
 * client's. */
struct slice uri_tag(struct exchange *exchange, const struct cache_rule *rule, struct slice authority,
                     struct slice target);
/* The host by which a trusted proxy before us was asked; len 0: none is told, or it is no host. */
struct slice told_host_in_one_spelling(struct exchange *exchange);
/* What an unsafe request changes: its own target and, once it is answered with 2xx or 3xx, those of the same host that
 * Location and Content-Location name. Their tags are added at out[count]; each returns how many. None for safe methods. */
enum { URIS_MAX = 3 };
size_t changed_uri(struct exchange *exchange, struct slice *out, size_t count);
size_t named_uris(struct exchange *exchange, const struct stream *answer, struct slice *out, size_t count);
/* The cache groups that the answer to an unsafe request says have changed, whatever its status. */
void named_groups(struct exchange *exchange, const struct stream *answer, struct group_tags *out);

/* What a client gets of a whole answer. */
enum shape_kind {
    SHAPE_WHOLE,
    SHAPE_PART,          /* 206 */
    SHAPE_PARTS,         /* 206, several as one multipart body; of an object alone */
    SHAPE_UNMODIFIED,    /* 304 */
    SHAPE_UNSATISFIABLE, /* 416 */
};

struct shape {
    enum shape_kind kind;
    int status;
    int64_t content_length, whole_bytes; /* -1: unknown */
    struct byte_range part;
    struct byte_range parts[RANGE_MAX_PARTS];
    size_t part_count;
    int64_t skip_bytes; /* of what there is, in front of the part */
};

struct shape shape_of(struct exchange *exchange, int status, const struct header *headers, size_t count,
                      int64_t body_bytes /* -1: unknown */);
bool shape_passes_field(const struct shape *shape, struct slice name);
size_t add_content_range(struct exchange *exchange, const struct shape *shape, struct header *out,
                         size_t count);
/* The bytes that the shape leaves of the body: each piece passes through window_cut() once, in order. */
void window_open(struct exchange *exchange, const struct shape *shape);
size_t window_cut(struct exchange *exchange, struct slice *pieces, size_t count); /* what is left of them */
bool window_is_done(const struct exchange *exchange); /* nothing more is to be sent */

/* The fields of an answer that changes the protocol; memory is the client's. */
struct header *switch_fields(struct exchange *exchange, const struct stream *answer, size_t *count_out);

/* Several ranges of the object that is delivered, as one body of type multipart/byteranges (RFC 9110 section 14.6). Opening
 * sets the shape's content_length and adds the type; the shape becomes the whole where that is shorter. */
size_t parts_open(struct exchange *exchange, struct shape *shape, struct header *out, size_t count);
size_t parts_take(struct exchange *exchange, struct slice *pieces, size_t room);
bool parts_are_done(const struct exchange *exchange);

/* The head and length of the form in which a client gets an object, or what of a load is to be kept compressed. */
struct form {
    const struct header *headers;
    size_t header_count;
    int64_t body_bytes;
    bool is_unpacked; /* send_unpacked() instead of the object's own bytes */
};

struct form form_of_object(struct exchange *exchange, const struct object *object);
struct form form_of_stream(struct exchange *exchange, const struct stream *stream, int64_t content_length);
void stage_unpack_left(struct exchange *exchange);
void send_unpacked(void *exchange); /* once the head is started, and whenever the client is ready */
void send_pieces(struct exchange *exchange, const struct slice *pieces, size_t count, enum client_piece how);

/* Fields that several stages add to an answer's head; each returns the new count. Memory is the client's. */
enum { OWN_FIELDS_MAX = 24 };
size_t add_ratelimit_fields(struct exchange *exchange, struct header *out, size_t count);

/* What a request to the upstream carries: the client's end-to-end fields and what we say of the hop. A
 * `shared` one, for a load, goes without conditions and ranges, which are one client's own, and with an
 * Accept-Encoding that says which codings we tell apart.
 */
void build_origin_request(struct exchange *exchange, bool shared, struct origin_request *out);
/* Expands a route's templates into memory of the request; values that are absent leave their tag out. */
size_t expand_tags(struct exchange *exchange, const struct template *templates, size_t count,
                   struct slice *out);

#endif
