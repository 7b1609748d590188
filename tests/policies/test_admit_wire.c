/* The batch's form, byte for byte: the script and the node may be of different builds during a deployment. */
#include "admit_wire.h"

#include <criterion/criterion.h>
#include <string.h>

Test(admit_wire, a_tuple_and_a_charge_have_their_fixed_form)
{
    static const unsigned char expected[] = {
        0, 0, 0,   0, 0,    0,    0x08, 0x40, 1, /* 3 requests, 1 charge */
        2, 0, 's',                               /* KEYS[2], sliding window */
        0, 0, 0,   0, 0,    0,    0x34, 0x40,    /* 20 */
        0, 0, 0,   0, 0x80, 0x84, 0x2e, 0x41,    /* 1000000 us */
        0, 0, 0,   0, 0,    0,    0xf0, 0x3f,    /* tick 1 us */
        0, 0, 0,   0, 0,    0,    0,    0,       /* nothing extra */
        0, 0, 0,   0, 0,    0,    0x14, 0x40,    /* cost 5 */
    };
    static const struct limit_terms twenty_a_second = {
        .algorithm = LIMIT_SLIDING_WINDOW, .limit = 20, .window_us = 1000000, .tick_us = 1};
    char bytes[ADMIT_WIRE_TUPLE_BYTES + ADMIT_WIRE_CHARGE_BYTES];

    cr_assert_eq(admit_wire_tuple(3, 1, bytes), ADMIT_WIRE_TUPLE_BYTES);
    cr_assert_eq(admit_wire_charge(2, &twenty_a_second, 5, bytes + ADMIT_WIRE_TUPLE_BYTES),
                 ADMIT_WIRE_CHARGE_BYTES);
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
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char bytes[ADMIT_WIRE_CHARGE_BYTES];
        double extra;
        admit_wire_charge(2, &rows[i].terms, 1, bytes);
        memcpy(&extra, bytes + 3 + 3 * 8, sizeof(extra));
        cr_assert_eq(bytes[2], rows[i].letter);
        cr_assert_eq(admit_wire_reading(&rows[i].terms), rows[i].reading);
        cr_assert(extra == rows[i].extra);
    }
}
