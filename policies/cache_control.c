/* Cache-Control: what the field lines of one message say together (RFC 9111 section 5.2). */
#include "cache_control.h"

#include "http_char.h"
#include "text.h"

/* One element of the list. */
struct directive {
    struct slice name;
    struct slice argument; /* without its quotes; base NULL: none */
    bool is_sound;         /* token [ "=" ( token / quoted-string ) ], and nothing else */
};

/* Where the quoted string that starts at `from` ends (just after its closing quote); 0: it does not. */
static size_t quoted_end(struct slice line, size_t from)
{
    for (size_t i = from + 1; i < line.len; i++) {
        if (line.base[i] == '\\')
            i++;
        else if (line.base[i] == '"')
            return i + 1;
    }
    return 0;
}

/* What is left of a field line. */
struct rest {
    struct slice line;
    bool quotes_are_broken; /* one was never closed */
};

/* The next element, up to a comma outside of quotes. A quote that is never closed hides nothing: it and all
 * later ones of the line count as any other byte, so that what follows the next comma is still seen (and no
 * byte is looked at again for each quote). */
static struct slice next_element(struct rest *rest)
{
    struct slice line = rest->line;
    size_t i = 0;

    while (i < line.len && line.base[i] != ',') {
        size_t end = line.base[i] == '"' && !rest->quotes_are_broken ? quoted_end(line, i) : 0;
        if (line.base[i] == '"' && end == 0)
            rest->quotes_are_broken = true;
        i = end != 0 ? end : i + 1;
    }
    size_t eaten = i < line.len ? i + 1 : i;
    rest->line = slice_of(line.base + eaten, line.len - eaten);
    return slice_trim(slice_of(line.base, i));
}

static struct directive directive_of(struct slice element)
{
    const char *equals = memchr(element.base, '=', element.len);
    size_t name_len = equals == NULL ? element.len : (size_t)(equals - element.base);
    struct slice name = slice_of(element.base, name_len);
    struct directive out = {.name = slice_trim(name), .is_sound = is_token(name)};

    if (equals == NULL)
        return out;
    out.argument = slice_of(equals + 1, element.len - name_len - 1);
    if (out.argument.len >= 2 && out.argument.base[0] == '"') {
        out.is_sound = out.is_sound && quoted_end(out.argument, 0) == out.argument.len;
        out.argument = slice_of(out.argument.base + 1, out.argument.len - 2);
    } else {
        out.is_sound = out.is_sound && is_token(out.argument);
    }
    return out;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A lifetime: the smallest of all that were given; one that is no number is 0. Returns whether this one is
 * valid. */
static bool note_lifetime(const struct directive *directive, int64_t *lifetime_s)
{
    int64_t seconds = 0;
    bool is_valid = directive->is_sound && directive->argument.base != NULL &&
                    text_parse_digits(directive->argument, CACHE_SECONDS_MAX, &seconds);

    if (!is_valid)
        seconds = 0;
    *lifetime_s = *lifetime_s == CACHE_SECONDS_ABSENT ? seconds : smaller(*lifetime_s, seconds);
    return is_valid;
}

static void note_max_stale(const struct directive *directive, struct cache_control *out)
{
    struct directive plain = *directive;

    if (plain.argument.base == NULL)
        plain.argument = SLICE("2147483648"); /* alone it means: however stale */
    note_lifetime(&plain, &out->max_stale_s);
}

static void note_min_fresh(const struct directive *directive, struct cache_control *out)
{
    int64_t seconds;

    if (directive->is_sound && directive->argument.base != NULL &&
        text_parse_digits(directive->argument, CACHE_SECONDS_MAX, &seconds) && seconds > out->min_fresh_s)
        out->min_fresh_s = seconds;
}

/* What names no fields, or not in a way we are sure of, restricts the whole response. */
bool cache_control_is_name_list(struct slice list)
{
    struct slice name;
    bool has_name = false;

    while (list_next(&list, &name)) {
        if (name.len > 0 && !is_token(name))
            return false;
        has_name = has_name || name.len > 0;
    }
    return has_name;
}

/* no-cache and private: the form without an argument says more than the one that names fields, and wins. */
static void note_fields_form(const struct directive *directive, bool *flag, bool *fields_only)
{
    bool names_fields = directive->is_sound && cache_control_is_name_list(directive->argument);

    *fields_only = names_fields && (!*flag || *fields_only);
    *flag = true;
}

/* Returns whether the name is one of ours. Restrictions count even with an argument they do not have; what
 * loosens does not. */
static bool note_restriction(const struct directive *directive, struct cache_control *out)
{
    static const struct {
        struct slice name;
        size_t flag;
    } plain[] = {
        {{"no-store", 8}, offsetof(struct cache_control, no_store)},
        {{"must-revalidate", 15}, offsetof(struct cache_control, must_revalidate)},
        {{"proxy-revalidate", 16}, offsetof(struct cache_control, proxy_revalidate)},
        {{"must-understand", 15}, offsetof(struct cache_control, must_understand)},
        {{"no-transform", 12}, offsetof(struct cache_control, no_transform)},
        {{"only-if-cached", 14}, offsetof(struct cache_control, only_if_cached)},
    };

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (slice_eq_nocase(directive->name, plain[i].name)) {
            *(bool *)((char *)out + plain[i].flag) = true;
            return true;
        }
    }
    if (slice_eq_nocase(directive->name, SLICE("no-cache")))
        note_fields_form(directive, &out->no_cache, &out->no_cache_fields_only);
    else if (slice_eq_nocase(directive->name, SLICE("private")))
        note_fields_form(directive, &out->is_private, &out->private_fields_only);
    else
        return false;
    return true;
}

/* Returns whether it is one that we know. */
static bool note(const struct directive *directive, struct cache_control *out)
{
    bool is_bare = directive->is_sound && directive->argument.base == NULL;

    out->is_malformed = out->is_malformed || !directive->is_sound;
    if (note_restriction(directive, out)) {
        if (is_bare && slice_eq_nocase(directive->name, SLICE("must-revalidate")))
            out->permits_authorization = true;
        if (is_bare && slice_eq_nocase(directive->name, SLICE("must-understand")))
            out->yields_no_store = true;
    } else if (slice_eq_nocase(directive->name, SLICE("public"))) {
        out->is_public = out->is_public || is_bare;
        out->permits_authorization = out->permits_authorization || is_bare;
    } else if (slice_eq_nocase(directive->name, SLICE("max-age"))) {
        note_lifetime(directive, &out->max_age_s);
    } else if (slice_eq_nocase(directive->name, SLICE("s-maxage"))) {
        bool is_first = out->s_maxage_s == CACHE_SECONDS_ABSENT;
        bool is_valid = note_lifetime(directive, &out->s_maxage_s);
        out->s_maxage_is_valid = is_valid && (is_first || out->s_maxage_is_valid);
    } else if (slice_eq_nocase(directive->name, SLICE("stale-while-revalidate"))) {
        note_lifetime(directive, &out->stale_while_revalidate_s);
    } else if (slice_eq_nocase(directive->name, SLICE("stale-if-error"))) {
        note_lifetime(directive, &out->stale_if_error_s);
    } else if (slice_eq_nocase(directive->name, SLICE("max-stale"))) {
        note_max_stale(directive, out);
    } else if (slice_eq_nocase(directive->name, SLICE("min-fresh"))) {
        note_min_fresh(directive, out);
    } else {
        return false;
    }
    return true;
}

void cache_control_clear(struct cache_control *out)
{
    *out = (struct cache_control){
        .max_age_s = CACHE_SECONDS_ABSENT,
        .s_maxage_s = CACHE_SECONDS_ABSENT,
        .stale_while_revalidate_s = CACHE_SECONDS_ABSENT,
        .stale_if_error_s = CACHE_SECONDS_ABSENT,
        .max_stale_s = CACHE_SECONDS_ABSENT,
        .min_fresh_s = CACHE_SECONDS_ABSENT,
    };
}

/* A mistake anywhere may have hidden a restriction: it must not open what Authorization closes. */
void cache_control_settle(struct cache_control *out)
{
    out->permits_authorization = !out->is_malformed && (out->permits_authorization || out->s_maxage_is_valid);
}

void cache_control_parse(const struct header *headers, size_t count, struct cache_control *out)
{
    cache_control_clear(out);
    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(headers[i].name, SLICE("cache-control")))
            continue;
        for (struct rest rest = {.line = headers[i].value}; rest.line.len > 0;) {
            struct slice element = next_element(&rest);
            if (element.len == 0)
                continue; /* RFC 9110 section 5.6.1: empty elements are no error */
            struct directive directive = directive_of(element);
            note(&directive, out);
        }
    }
    cache_control_settle(out);
}

/* ---- Surrogate-Control ---- */

/* Takes the target off the element's end, "max-age=60;name"; empty: it is for everybody. */
static struct slice take_target(struct slice *element)
{
    struct slice whole = *element;

    for (size_t i = 0; i < whole.len; i++) {
        size_t end = whole.base[i] == '"' ? quoted_end(whole, i) : 0;

        if (whole.base[i] == ';') {
            *element = slice_trim(slice_of(whole.base, i));
            return slice_trim(slice_of(whole.base + i + 1, whole.len - i - 1));
        }
        i = end == 0 ? i : end - 1;
    }
    return slice_of(NULL, 0);
}

/* "60+30": fresh for 60 s, and then still usable for 30 s. */
static bool note_extended_age(struct directive directive, struct cache_control *out)
{
    struct slice whole = directive.argument, extension;
    const char *plus = whole.len == 0 ? NULL : memchr(whole.base, '+', whole.len);

    if (plus == NULL || !slice_eq_nocase(directive.name, SLICE("max-age")))
        return note(&directive, out);
    directive.argument.len = (size_t)(plus - whole.base);
    extension = slice_of(plus + 1, whole.len - directive.argument.len - 1);
    note(&directive, out);
    directive.argument = extension;
    note_lifetime(&directive, &out->stale_while_revalidate_s);
    note_lifetime(&directive, &out->stale_if_error_s);
    return true;
}

/* A directive of Surrogate-Control for us, or for everybody. */
static bool take_surrogate_directive(struct rest *rest, struct slice us, struct directive *out)
{
    while (rest->line.len > 0) {
        struct slice element = next_element(rest), target = take_target(&element);

        if (element.len == 0 || (target.len > 0 && !slice_eq_nocase(target, us)))
            continue;
        *out = directive_of(element);
        if (slice_eq_nocase(out->name, SLICE("no-store-remote")))
            out->name = SLICE("no-store");
        return true;
    }
    return false;
}

bool surrogate_control_parse(const struct header *headers, size_t count, struct slice us,
                             struct cache_control *out)
{
    bool says_something = false;

    cache_control_clear(out);
    for (size_t i = 0; i < count; i++) {
        struct rest rest = {.line = headers[i].value};
        struct directive directive;

        if (!slice_eq(headers[i].name, SLICE("surrogate-control")))
            continue;
        while (take_surrogate_directive(&rest, us, &directive))
            says_something = note_extended_age(directive, out) || !directive.is_sound || says_something;
    }
    cache_control_settle(out);
    return says_something;
}

/* ---- fields that are named ---- */

bool cache_control_names(struct slice list, struct slice name)
{
    struct slice each;

    while (list_next(&list, &each))
        if (slice_eq_nocase(each, name))
            return true;
    return false;
}

static bool withholds(const struct directive *directive, struct slice name)
{
    return (slice_eq_nocase(directive->name, SLICE("no-cache")) ||
            slice_eq_nocase(directive->name, SLICE("private"))) &&
           cache_control_names(directive->argument, name);
}

bool cache_control_withholds(const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(headers[i].name, SLICE("cache-control")))
            continue;
        for (struct rest rest = {.line = headers[i].value}; rest.line.len > 0;) {
            struct directive directive = directive_of(next_element(&rest));

            if (withholds(&directive, name))
                return true;
        }
    }
    return false;
}

bool surrogate_control_withholds(const struct header *headers, size_t count, struct slice us,
                                 struct slice name)
{
    for (size_t i = 0; i < count; i++) {
        struct rest rest = {.line = headers[i].value};
        struct directive directive;

        if (!slice_eq(headers[i].name, SLICE("surrogate-control")))
            continue;
        while (take_surrogate_directive(&rest, us, &directive))
            if (withholds(&directive, name))
                return true;
    }
    return false;
}
