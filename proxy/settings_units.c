/* Settings units: see settings_units.h. */
#include "settings_units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit durations[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000},
                                        {"s", 1000},     {"ms", 1},      {NULL, 0}};
static const struct unit sizes[] = {
    {"GiB", 1 << 30}, {"MiB", 1 << 20},    {"KiB", 1 << 10},           {"B", 1},
    {"KB", 1000},     {"MB", 1000 * 1000}, {"GB", 1000 * 1000 * 1000}, {NULL, 0}};

/* The digits at the start of `text`; *rest is behind them. */
static bool read_digits(const char *text, int64_t *out, const char **rest)
{
    int64_t number = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *at - '0', &number))
            return false;
    *out = number;
    *rest = at;
    return at != text;
}

static bool read_with_unit(const char *text, const struct unit *units, int64_t *out)
{
    const char *unit;
    int64_t number;

    if (!read_digits(text, &number, &unit))
        return false;
    if (number == 0 && *unit == '\0') {
        *out = 0;
        return true;
    }
    for (; units->name != NULL; units++)
        if (strcmp(unit, units->name) == 0)
            return !__builtin_mul_overflow(number, units->factor, &number) && (*out = number, true);
    return false;
}

bool read_count(const char *text, int64_t *out)
{
    const char *rest;
    int64_t number;

    if (!read_digits(text, &number, &rest) || *rest != '\0')
        return false;
    *out = number;
    return true;
}

bool read_duration_ms(const char *text, int64_t *out_ms)
{
    return read_with_unit(text, durations, out_ms);
}

bool read_size(const char *text, int64_t *out_bytes)
{
    return read_with_unit(text, sizes, out_bytes);
}

bool read_truth(const char *text, bool *out)
{
    static const struct {
        const char *word;
        bool means;
    } words[] = {{"true", true}, {"false", false}, {"yes", true},
                 {"no", false},  {"on", true},     {"off", false}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i].word) == 0) {
            *out = words[i].means;
            return true;
        }
    return false;
}

bool read_rate(const char *text, struct rate *out)
{
    const char *slash;
    int64_t units, window_ms = 0, window_us;

    if (!read_digits(text, &units, &slash) || *slash != '/')
        return false;
    for (const struct unit *unit = durations; unit->name != NULL; unit++)
        if (strcmp(slash + 1, unit->name) == 0)
            window_ms = unit->factor;
    if (window_ms == 0 && !read_duration_ms(slash + 1, &window_ms))
        return false;
    if (units == 0 || window_ms == 0 || __builtin_mul_overflow(window_ms, 1000, &window_us))
        return false;
    *out = (struct rate){units, window_us};
    return true;
}

static struct amount show(int64_t number, const struct unit *units)
{
    struct amount out;

    while (units->factor != 1 && (number == 0 || number % units->factor != 0))
        units++;
    snprintf(out.text, sizeof out.text, "%" PRId64 "%s", number / units->factor, units->name);
    return out;
}

struct amount show_duration(int64_t ms)
{
    return ms == 0 ? (struct amount){"0s"} : show(ms, durations);
}

struct amount show_size(int64_t bytes)
{
    return show(bytes, sizes);
}
