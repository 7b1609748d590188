/* Admit wire: how batches are written for lua/admit.lua and lua/settle.lua, whose headers state the form. */
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

    CHECK(number >= -1 && number <= LIMIT_EXACT);
    memcpy(&bits, &value, sizeof(bits));
    return put_little_endian(bits, sizeof(bits), out);
}

size_t admit_wire_tuple(int64_t count, size_t charges, char *out)
{
    CHECK(charges <= ADMIT_WIRE_MAX_CHARGES);
    size_t len = put_double(count, out);
    return len + put_little_endian(charges, 1, out + len);
}

static char letter_of(enum limit_algorithm algorithm)
{
    switch (algorithm) { /* no default: a new algorithm must be given a letter before it compiles */
    case LIMIT_SLIDING_WINDOW: return 's';
    case LIMIT_SLIDING_LOG: return 'l';
    case LIMIT_TOKEN_BUCKET: return 't';
    case LIMIT_FIXED_WINDOW: return 'f';
    case LIMIT_CONCURRENCY: return 'c';
    }
    CHECK(!"an algorithm is one of its own values");
    return 0;
}

/* What an algorithm needs beside limit and window. */
static int64_t extra_of(const struct limit_terms *terms)
{
    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return 0;
    case LIMIT_SLIDING_LOG: return 0;
    case LIMIT_TOKEN_BUCKET: return terms->burst;
    case LIMIT_FIXED_WINDOW: return (int64_t)terms->calendar;
    case LIMIT_CONCURRENCY: return 0;
    }
    return 0;
}

size_t admit_wire_charge(struct limit_places at, const struct limit_terms *terms, int64_t cost,
                         int64_t first_hold, char *out)
{
    CHECK(at.state <= ADMIT_WIRE_MAX_KEYS && at.holds <= ADMIT_WIRE_MAX_KEYS);
    CHECK((at.holds > 0) == (terms->lease_us > 0));
    size_t len = put_little_endian(at.state, 2, out);
    len += put_little_endian(at.holds, 2, out + len);
    out[len++] = letter_of(terms->algorithm);
    len += put_double(terms->limit, out + len);
    len += put_double(terms->window_us, out + len);
    len += put_double(terms->tick_us, out + len);
    len += put_double(extra_of(terms), out + len);
    len += put_double(cost, out + len);
    if (at.holds == 0)
        return len;
    len += put_double(terms->lease_us, out + len);
    return len + put_double(first_hold, out + len);
}

size_t settle_wire_item(struct limit_places at, const struct limit_terms *terms, int64_t held, int64_t serial,
                        int64_t charged, char *out)
{
    size_t len = admit_wire_charge(at, terms, held, serial, out);

    return len + put_double(charged, out + len);
}

char admit_wire_reading(const struct limit_terms *terms)
{
    return terms->algorithm == LIMIT_SLIDING_LOG ? ADMIT_WIRE_LOG : ADMIT_WIRE_WHOLE;
}
