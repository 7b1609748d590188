/* Flight, where what it loads is to be kept compressed: the clients get it as it came, the store gets it packed, and however
 * the load goes the lock is given back once. */
#include "flight_rig.h"
#include "gzip.h"

#include <criterion/criterion.h>

TestSuite(flight_packed, .timeout = 20);

enum { BODY_BYTES = 2000, TURNS = 8 };

static struct passenger a, b;
static char body[BODY_BYTES + 1];

static void board(struct passenger *passenger)
{
    passenger_init(passenger, ROUTE_PACKING, "anna");
    flight_board(rig.flights, &passenger->rider);
}

/* Anna's load has its head, and it is text. */
static void begin(const char *more_name, const char *more_value)
{
    struct header headers[] = {{SLICE("content-type"), SLICE("text/plain")},
                               {slice_text(more_name), slice_text(more_value)}};

    memset(body, 'x', BODY_BYTES);
    rig_start(true);
    board(&a);
    say_load(0, 0, NULL);
    fetch_head(0, 200, -1, headers, 2);
}

static void turn_often(void)
{
    for (int i = 0; i < TURNS; i++)
        rig_turn();
}

static const struct object *filled(void)
{
    cr_assert_eq(store_count(FAKE_FILL), 1);
    return store_call(FAKE_FILL, 0)->object;
}

static void expect_packed(const struct object *object)
{
    char out[BODY_BYTES + 1];
    struct unpacker *unpacker = unpacker_new(object->blocks, object->block_count, BODY_BYTES);
    size_t made;

    cr_assert_eq(object->plain_bytes, BODY_BYTES);
    cr_assert_lt(object->body_bytes, BODY_BYTES / 10);
    cr_assert_eq(unpacker_next(unpacker, out, sizeof(out), &made), UNPACKED_ALL);
    cr_assert(made == BODY_BYTES && memcmp(out, body, BODY_BYTES) == 0);
    unpacker_free(&unpacker);
}

Test(flight_packed, the_clients_get_it_as_it_came_and_the_store_gets_it_packed)
{
    begin("x-a", "1");
    fetch_body(0, slice_of(body, 700));
    turn_often();
    fetch_body(0, slice_of(body + 700, BODY_BYTES - 700));
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(store_count(FAKE_FILL), 0, "not before it is packed");
    cr_expect_text(&a, body, CLIENT_LAST);
    turn_often();
    expect_packed(filled());
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    rig_stop();
}

/* By then it may be packed: either way nobody loads it again. */
Test(flight_packed, who_comes_between_the_end_and_the_packed_form_gets_the_one_or_the_other)
{
    begin("x-a", "1");
    fetch_body(0, slice_of(body, BODY_BYTES));
    fetch_end(0, FAULT_NONE);
    board(&b);
    turn_often();
    if (b.rider.outcome == BOARDING_OBJECT)
        expect_packed(b.rider.object);
    else
        cr_expect_text(&b, body, CLIENT_LAST);
    expect_packed(filled());
    cr_assert_eq(fake_origin.started, 1);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight_packed, who_leaves_meanwhile_does_not_end_it)
{
    begin("x-a", "1");
    fetch_body(0, slice_of(body, BODY_BYTES));
    passenger_leave(&a);
    fetch_end(0, FAULT_NONE);
    turn_often();
    expect_packed(filled());
    rig_stop();
}

Test(flight_packed, what_breaks_off_is_stored_in_no_form)
{
    begin("x-a", "1");
    fetch_body(0, slice_of(body, 1500));
    turn_often();
    fetch_end(0, FAULT_ORIGIN_BROKE);
    turn_often();
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    rig_stop();
}

Test(flight_packed, what_grows_too_large_is_stored_in_no_form)
{
    begin("x-a", "1");
    fetch_body(0, slice_of(body, BODY_BYTES));
    turn_often();
    fetch_body(0, slice_of(body, BODY_BYTES));
    fetch_end(0, FAULT_NONE);
    turn_often();
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    rig_stop();
}

Test(flight_packed, a_worker_that_stops_meanwhile_gives_the_lock_back)
{
    begin("x-a", "1");
    fetch_body(0, slice_of(body, BODY_BYTES));
    fetch_end(0, FAULT_NONE);
    passenger_leave(&a);
    flights_cancel(rig.flights);
    turn_often();
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(times_given_back(), 1);
    rig_stop();
}

Test(flight_packed, what_an_invalidation_has_overtaken_is_the_stores_to_refuse)
{
    begin("x-a", "1");
    fetch_body(0, slice_of(body, BODY_BYTES));
    fetch_end(0, FAULT_NONE);
    invalidate_near("declared", 5);
    turn_often();
    cr_assert_eq(filled()->epoch, 0, "by the epoch at which its load began");
    passenger_leave(&a);
    rig_stop();
}

Test(flight_packed, what_is_coded_or_must_not_be_is_stored_as_it_came)
{
    static const struct {
        const char *name, *value;
    } rows[] = {{"cache-control", "max-age=60, no-transform"}, {"x-a", "1"}};

    for (size_t i = 0; i < 2; i++) {
        memset(&fake_origin, 0, sizeof(fake_origin));
        begin(rows[i].name, rows[i].value);
        fetch_body(0, slice_of(body, i == 0 ? BODY_BYTES : 511)); /* the second is small */
        fetch_end(0, FAULT_NONE);
        turn_often();
        cr_expect_eq(filled()->plain_bytes, 0);
        cr_expect_eq(filled()->body_bytes, i == 0 ? BODY_BYTES : 511);
        passenger_leave(&a);
        rig_stop();
    }
}
