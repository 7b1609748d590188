/* The batch's form, byte for byte: the script and the node may be of different builds during a deployment. */
#include "admit_wire.h"

#include <criterion/criterion.h>
#include <string.h>

Test(admit_wire, a_tuple_and_a_charge_have_their_fixed_form)
{
    static const unsigned char expected[] = {
        0, 0, 0, 0, 0,    0,    0x08, 0x40, 1, /* 3 requests, 1 charge */
        2, 0, 0, 0, 's',                       /* KEYS[2], no holds, sliding window */
        0, 0, 0, 0, 0,    0,    0x34, 0x40,    /* 20 */
        0, 0, 0, 0, 0x80, 0x84, 0x2e, 0x41,    /* 1000000 us */
        0, 0, 0, 0, 0,    0,    0xf0, 0x3f,    /* tick 1 us */
        0, 0, 0, 0, 0,    0,    0,    0,       /* nothing extra */
        0, 0, 0, 0, 0,    0,    0x14, 0x40,    /* cost 5 */
    };
    static const struct limit_terms twenty_a_second = {
        .algorithm = LIMIT_SLIDING_WINDOW, .limit = 20, .window_us = 1000000, .tick_us = 1};
    char bytes[ADMIT_WIRE_TUPLE_BYTES + ADMIT_WIRE_CHARGE_BYTES];

    cr_assert_eq(admit_wire_tuple(3, 1, bytes), ADMIT_WIRE_TUPLE_BYTES);
    cr_assert_eq(admit_wire_charge((struct limit_places){2, 0}, &twenty_a_second, 5, ADMIT_WIRE_NO_HOLD,
                                   bytes + ADMIT_WIRE_TUPLE_BYTES),
                 45);
    cr_assert_arr_eq(bytes, expected, sizeof(expected));
}

Test(admit_wire, each_algorithm_has_its_letter_and_what_it_needs_beside_limit_and_window)
{
    static const struct {
        struct limit_terms terms;
        char letter, reading;
        double extra;
    } rows[] = {
        {{.algorithm = LIMIT_SLIDING_WINDOW, .limit = 1, .window_us = 1, .tick_us = 1}, 's', '-', 0},
        {{.algorithm = LIMIT_SLIDING_LOG, .limit = 1, .window_us = 1, .tick_us = 1}, 'l', 'l', 0},
        {{.algorithm = LIMIT_TOKEN_BUCKET, .limit = 1, .window_us = 1, .tick_us = 1, .burst = 7},
         't',
         '-',
         7},
        {{.algorithm = LIMIT_FIXED_WINDOW, .limit = 1, .window_us = 1, .calendar = CALENDAR_MONTH},
         'f',
         '-',
         2},
        {{.algorithm = LIMIT_CONCURRENCY, .limit = 1, .tick_us = 1, .lease_us = 1}, 'c', '-', 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char bytes[ADMIT_WIRE_CHARGE_BYTES];
        double extra;
        admit_wire_charge((struct limit_places){2, rows[i].terms.lease_us > 0 ? 2 : 0}, &rows[i].terms, 1, 0,
                          bytes);
        memcpy(&extra, bytes + 5 + 3 * 8, sizeof(extra));
        cr_assert_eq(bytes[4], rows[i].letter);
        cr_assert_eq(admit_wire_reading(&rows[i].terms), rows[i].reading);
        cr_assert(extra == rows[i].extra);
    }
}

static double double_at(const char *bytes)
{
    double number;

    memcpy(&number, bytes, sizeof(number));
    return number;
}

Test(admit_wire, a_hold_has_its_lease_its_serial_and_what_is_charged_for_it_behind_the_charge)
{
    static const struct limit_terms reserving = {.algorithm = LIMIT_SLIDING_LOG,
                                                 .limit = 20,
                                                 .window_us = 1000000,
                                                 .tick_us = 1,
                                                 .lease_us = 60000000};
    char bytes[SETTLE_WIRE_ITEM_BYTES];

    cr_assert_eq(admit_wire_charge((struct limit_places){3, 258}, &reserving, 10, 4711, bytes),
                 ADMIT_WIRE_CHARGE_BYTES);
    cr_assert_eq(bytes[0], 3);
    cr_assert(bytes[2] == 2 && bytes[3] == 1, "KEYS[258] has the holds");
    cr_assert(double_at(bytes + 45) == 60000000);
    cr_assert(double_at(bytes + 53) == 4711);

    cr_assert_eq(settle_wire_item((struct limit_places){3, 4}, &reserving, 10, 4712, 7, bytes),
                 SETTLE_WIRE_ITEM_BYTES);
    cr_assert(double_at(bytes + 53) == 4712);
    cr_assert(double_at(bytes + 61) == 7);
    settle_wire_item((struct limit_places){3, 4}, &reserving, 10, 4712, SETTLE_WIRE_RENEW, bytes);
    cr_assert(double_at(bytes + 61) == -1);
}
