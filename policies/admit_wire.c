/* Admit wire: how a batch of limit decisions is written for lua/admit.lua, whose header states the form. */
#include "admit_wire.h"

#include "check.h"

#include <string.h>

static size_t put_little_endian(uint64_t number, size_t bytes, char *out)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (char)(unsigned char)(number >> (8 * i));
    return bytes;
}

static size_t put_double(int64_t number, char *out)
{
    double value = (double)number;
    uint64_t bits;

    CHECK(number >= -1 && number <= SLIDING_WINDOW_EXACT);
    memcpy(&bits, &value, sizeof(bits));
    return put_little_endian(bits, sizeof(bits), out);
}

size_t admit_wire_tuple(int64_t count, size_t charges, char *out)
{
    CHECK(charges <= ADMIT_WIRE_MAX_CHARGES);
    size_t len = put_double(count, out);
    return len + put_little_endian(charges, 1, out + len);
}

size_t admit_wire_charge(size_t key, const struct sliding_rule *rule, int64_t cost, char *out)
{
    CHECK(key <= ADMIT_WIRE_MAX_KEYS);
    size_t len = put_little_endian(key, 2, out);
    out[len++] = 's';
    len += put_double(rule->limit, out + len);
    len += put_double(rule->window_us, out + len);
    len += put_double(rule->tick_us, out + len);
    len += put_double(cost, out + len);
    return len;
}
