/* Flight rig: flights over a fake store and a fake origin, and passengers that write down what they get. */
#ifndef WEIR_TESTS_FLIGHT_RIG_H
#define WEIR_TESTS_FLIGHT_RIG_H

#include "fake_origin.h"
#include "fake_store.h"
#include "flight.h"
#include "limiter.h"
#include "objects.h"
#include "test_site.h"

static struct {
    struct loop *loop;
    struct near *near;
    struct fake_store store;
    struct site *site;
    struct limiter *limiter;
    struct flights *flights;
} rig;

static const struct load_token LOCK = {7, 7}, OTHERS_LOCK = {9, 9};

struct passenger {
    struct rider rider;
    struct load_plan plan;
    struct header key;
    struct slice tag;
    int landings;
    struct stream_reader reader;
    char got[4096];
    size_t got_len;
    enum client_piece ending;
    struct passenger *companion; /* leaves the flight, or its stream, when this one is told */
};

/* Many rigs, one after the other, share a loop: it takes file descriptors. */
static inline void rig_start_on(struct loop *loop, bool is_shared)
{
    rig.loop = loop;
    rig.near = near_new(1 << 20, 1 << 18);
    fake_store_init(&rig.store, rig.near, is_shared);
    rig.site = test_site_new(rig.loop);
    rig.limiter = limiter_new(rig.loop, &rig.store.store, NULL);
    rig.flights = flights_new(rig.loop, &rig.store.store, rig.limiter);
}

static inline void rig_start(bool is_shared)
{
    rig_start_on(loop_new(), is_shared);
}

static inline void rig_turn(void)
{
    loop_turn(rig.loop, 0);
}

/* Everything that was taken must have been given back by now. */
static inline void rig_stop_on_loop(void)
{
    flights_free(rig.flights);
    limiter_free(rig.limiter);
    rig.store.store.ops->free(&rig.store.store);
    site_release(&rig.site);
    rig_turn();
    cr_assert_eq(fake_origin.pools, 0, "all sites are gone, and their pools with them");
    near_free(rig.near);
}

static inline void rig_stop(void)
{
    rig_stop_on_loop();
    loop_free(rig.loop);
}

/* ---- passengers ---- */

static inline void passenger_read(struct passenger *passenger)
{
    struct slice pieces[4];
    size_t count;

    do {
        count = stream_read(&passenger->reader, pieces, 4, &passenger->ending);
        for (size_t i = 0; i < count; i++) {
            cr_assert_lt(passenger->got_len + pieces[i].len, sizeof(passenger->got));
            memcpy(passenger->got + passenger->got_len, pieces[i].base, pieces[i].len);
            passenger->got_len += pieces[i].len;
        }
    } while (count > 0 && passenger->ending == CLIENT_MORE);
}

static inline void passenger_on_more(void *arg)
{
    struct passenger *passenger = arg;

    if (passenger->companion != NULL)
        stream_leave(&passenger->companion->reader);
    passenger_read(passenger);
}

static inline void passenger_landed(void *arg)
{
    struct passenger *passenger = arg;

    passenger->landings++;
    if (passenger->rider.outcome == BOARDING_STREAM) {
        cr_assert(stream_join(passenger->rider.stream, &passenger->reader, passenger_on_more, passenger));
        passenger_read(passenger);
    }
    if (passenger->companion != NULL)
        flight_leave(rig.flights, &passenger->companion->rider);
}

static inline void passenger_init(struct passenger *passenger, size_t route, const char *key)
{
    *passenger = (struct passenger){.key = {SLICE("x-api-key"), slice_text(key)}, .tag = SLICE("declared")};
    passenger->plan = (struct load_plan){
        .site = rig.site,
        .route = &site_settings(rig.site)->routes[route],
        .key = test_key(1),
        .tags = &passenger->tag,
        .tag_count = 1,
        .request = {.method = SLICE("GET"),
                    .target = SLICE("/patient"),
                    .authority = SLICE("localhost"),
                    .headers = &passenger->key,
                    .header_count = 1},
    };
    passenger->rider.plan = &passenger->plan;
    passenger->rider.landed = passenger_landed;
    passenger->rider.arg = passenger;
}

static inline void passenger_board(struct passenger *passenger, const char *key)
{
    passenger_init(passenger, ROUTE_PATIENT, key);
    flight_board(rig.flights, &passenger->rider);
    cr_assert_eq(passenger->landings, 0, "never told inside flight_board()");
}

/* As an exchange's disposal does. */
static inline void passenger_leave(struct passenger *passenger)
{
    flight_leave(rig.flights, &passenger->rider);
    stream_leave(&passenger->reader);
    if (passenger->landings > 0 && passenger->rider.outcome == BOARDING_OBJECT)
        object_release(&passenger->rider.object);
}

static inline void cr_expect_text(const struct passenger *passenger, const char *text,
                                  enum client_piece ending)
{
    cr_assert_eq(passenger->landings, 1);
    cr_assert_eq(passenger->rider.outcome, BOARDING_STREAM);
    cr_assert_eq(passenger->got_len, strlen(text));
    cr_assert_eq(memcmp(passenger->got, text, passenger->got_len), 0);
    cr_assert_eq(passenger->ending, ending);
}

/* ---- the store's answers, the origin's answers ---- */

static inline struct fake_call *store_call(enum fake_op op, size_t nth)
{
    return fake_call_of(&rig.store, op, nth);
}

static inline size_t store_count(enum fake_op op)
{
    return fake_count_of(&rig.store, op);
}

static inline void say_load(size_t nth_lookup, int64_t epoch, struct object *stand_in)
{
    fake_tell_lookup(
        store_call(FAKE_LOOKUP, nth_lookup), FAULT_NONE,
        (struct lookup_answer){.kind = LOOKUP_LOAD, .object = stand_in, .load = LOCK, .epoch = epoch});
}

/* Others pass this key: its last answer could not be shared. */
static inline void say_probe(size_t nth_lookup)
{
    fake_tell_lookup(store_call(FAKE_LOOKUP, nth_lookup), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_PROBE, .load = LOCK});
}

/* The store has recorded that the load failed: now its riders are told. */
static inline void say_released(size_t nth_release)
{
    fake_tell_release(store_call(FAKE_RELEASE, nth_release), FAULT_NONE, true);
}

static inline void say_wait(size_t nth_lookup, struct object *stand_in)
{
    fake_tell_lookup(store_call(FAKE_LOOKUP, nth_lookup), FAULT_NONE,
                     (struct lookup_answer){
                         .kind = LOOKUP_WAIT, .object = stand_in, .load = OTHERS_LOCK, .wait_ms = 60000});
}

static inline void say(size_t nth_lookup, enum lookup_kind kind, struct object *object)
{
    fake_tell_lookup(store_call(FAKE_LOOKUP, nth_lookup), FAULT_NONE,
                     (struct lookup_answer){.kind = kind, .object = object, .status = 502});
}

static inline void invalidate_near(const char *tag, int64_t epoch)
{
    struct tag_stamp stamp = {slice_text(tag), epoch, false};

    near_apply(rig.near, epoch, 0, &stamp, 1);
}

static inline void head_ok(size_t place, int64_t content_length)
{
    fetch_head(place, 200, content_length, NULL, 0);
}

static inline void head_with(size_t place, int status, const char *name, const char *value)
{
    struct header header = {slice_text(name), slice_text(value)};

    fetch_head(place, status, -1, &header, 1);
}

/* How often the lock was given back: by fill or by release. */
static inline size_t times_given_back(void)
{
    size_t count = 0;

    for (size_t i = 0; i < rig.store.count; i++) {
        const struct fake_call *call = &rig.store.calls[i];

        count += (call->op == FAKE_FILL || call->op == FAKE_RELEASE) && call->token.hi == LOCK.hi &&
                 call->token.lo == LOCK.lo;
    }
    return count;
}

#endif
