/* The batch's form, byte for byte: the script and the node may be of different builds during a deployment. */
#include "admit_wire.h"

#include <criterion/criterion.h>

Test(admit_wire, a_tuple_and_a_charge_have_their_fixed_form)
{
    static const unsigned char expected[] = {
        0, 0, 0,   0, 0,    0,    0x08, 0x40, 1, /* 3 requests, 1 charge */
        2, 0, 's',                               /* KEYS[2], sliding window */
        0, 0, 0,   0, 0,    0,    0x34, 0x40,    /* 20 */
        0, 0, 0,   0, 0x80, 0x84, 0x2e, 0x41,    /* 1000000 us */
        0, 0, 0,   0, 0,    0,    0xf0, 0x3f,    /* tick 1 us */
        0, 0, 0,   0, 0,    0,    0x14, 0x40,    /* cost 5 */
    };
    static const struct sliding_rule twenty_a_second = {20, 1000000, 1};
    char bytes[ADMIT_WIRE_TUPLE_BYTES + ADMIT_WIRE_CHARGE_BYTES];

    cr_assert_eq(admit_wire_tuple(3, 1, bytes), ADMIT_WIRE_TUPLE_BYTES);
    cr_assert_eq(admit_wire_charge(2, &twenty_a_second, 5, bytes + ADMIT_WIRE_TUPLE_BYTES),
                 ADMIT_WIRE_CHARGE_BYTES);
    cr_assert_arr_eq(bytes, expected, sizeof(expected));
}
