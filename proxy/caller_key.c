/* Caller key: see caller_key.h. */
#include "caller_key.h"

#include "digest.h"
#include "http_char.h"

enum { VALUE_ROOM = 8192, WHOLE_DIGITS = 64 };

static const char not_of_the_form[] =
    "The key is not one that this limit can have: it has a value for each part of the "
    "limit's key, none of them empty, and addresses are written as such.";
static const char bad_digest[] = "After sha256: there must be 32 or 64 hexadecimal digits.";

const struct limit_rule *limit_named(const struct settings *settings, struct slice name)
{
    for (size_t i = 0; i < settings->limit_count; i++)
        if (slice_eq(slice_text(settings->limits[i].name), name))
            return &settings->limits[i];
    return NULL;
}

/* ---- principals ---- */

static bool is_digest(struct slice key, struct slice *digits)
{
    struct slice prefix = SLICE("sha256:");

    if (key.len < prefix.len || memcmp(key.base, prefix.base, prefix.len) != 0)
        return false;
    *digits = slice_of(key.base + prefix.len, key.len - prefix.len);
    return true;
}

static const char *read_digest(struct slice digits, unsigned char out[PRINCIPAL_BYTES])
{
    if (digits.len != 2 * PRINCIPAL_BYTES && digits.len != WHOLE_DIGITS)
        return bad_digest;
    for (size_t i = 0; i < digits.len; i++)
        if (hex_value(digits.base[i]) < 0)
            return bad_digest;
    for (size_t i = 0; i < PRINCIPAL_BYTES; i++)
        out[i] = (unsigned char)(hex_value(digits.base[2 * i]) << 4 | hex_value(digits.base[2 * i + 1]));
    return NULL;
}

static const char *digest_values(const struct limit_key *key, int ipv6_prefix, const struct slice *values,
                                 size_t count, unsigned char out[PRINCIPAL_BYTES])
{
    char value[VALUE_ROOM];
    size_t len;

    if (count == 1 && is_digest(values[0], &(struct slice){NULL, 0})) {
        struct slice digits;

        is_digest(values[0], &digits);
        return read_digest(digits, out);
    }
    len = limit_key_write_values(key, values, count, ipv6_prefix, value, sizeof(value));
    if (len == LIMIT_KEY_ABSENT)
        return not_of_the_form;
    if (len > sizeof(value))
        return "The key is too long.";
    digest_principal(key->kind, slice_of(value, len), out);
    return NULL;
}

/* ---- plans ---- */

static bool knows_callers_alike(const struct limit_rule *a, const struct limit_rule *b)
{
    return slice_eq(a->plan_key.kind, b->plan_key.kind) &&
           (a->plan_key.parts[0].kind != LIMIT_KEY_IP || a->ipv6_prefix == b->ipv6_prefix);
}

const struct limit_rule *limit_with_plans(const struct settings *settings, struct slice name,
                                          const char **flaw)
{
    const struct limit_rule *found = NULL;

    *flaw = NULL;
    for (size_t i = 0; i < settings->limit_count; i++) {
        const struct limit_rule *rule = &settings->limits[i];

        if (rule->plan_count == 0 || (name.len > 0 && !slice_eq(slice_text(rule->name), name)))
            continue;
        if (found != NULL && !knows_callers_alike(found, rule)) {
            *flaw = "Limits with plans know their callers by different keys: say which limit is meant.";
            return NULL;
        }
        found = rule;
    }
    if (found == NULL)
        *flaw = name.len > 0 ? "There is no limit of this name that has plans."
                             : "No limit of the configuration has plans.";
    return found;
}

const char *caller_of_plan(const struct limit_rule *rule, struct slice key,
                           unsigned char out[PRINCIPAL_BYTES])
{
    bool has_value = rule->plan_key.parts[0].kind != LIMIT_KEY_GLOBAL;

    return digest_values(&rule->plan_key, rule->ipv6_prefix, &key, has_value || key.len > 0 ? 1 : 0, out);
}

bool plan_is_offered(const struct settings *settings, const struct limit_rule *rule, struct slice plan)
{
    for (size_t i = 0; i < settings->limit_count; i++)
        if (knows_callers_alike(rule, &settings->limits[i]) &&
            limit_plan_named(&settings->limits[i], plan) != NULL)
            return true;
    return false;
}

/* ---- one limit's callers ---- */

const char *caller_of_limit(const struct limit_rule *rule, enum caller_naming naming,
                            const struct slice *values, size_t count, unsigned char out[PRINCIPAL_BYTES])
{
    static const struct limit_key by_address = {
        .parts = {{.kind = LIMIT_KEY_IP}}, .part_count = 1, .kind = {"ip", 2}};

    switch (naming) {
    case CALLER_BY_KEY: return digest_values(&rule->key, rule->ipv6_prefix, values, count, out);
    case CALLER_BY_ADDRESS: return digest_values(&by_address, rule->ipv6_prefix, values, count, out);
    case CALLER_SHARED:
        if (count > 0)
            return "All callers without a key are one: none can be named.";
        digest_principal(rule->key.kind, SLICE(""), out);
        return NULL;
    }
    return not_of_the_form;
}
