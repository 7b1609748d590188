/* Upgrade: see upgrade.h. */
#include "upgrade.h"

#include "http_char.h"

/* name or name/version, both tokens */
static bool is_protocol(struct slice protocol)
{
    const char *slash = protocol.len == 0 ? NULL : memchr(protocol.base, '/', protocol.len);
    size_t name_len = slash == NULL ? protocol.len : (size_t)(slash - protocol.base);

    return is_token(slice_of(protocol.base, name_len)) &&
           (slash == NULL || is_token(slice_of(slash + 1, protocol.len - name_len - 1)));
}

static struct slice name_of(struct slice protocol)
{
    const char *slash = memchr(protocol.base, '/', protocol.len);

    return slash == NULL ? protocol : slice_of(protocol.base, (size_t)(slash - protocol.base));
}

/* h2c and its drafts (h2c-14), HTTP/2.0, TLS/1.0 */
static bool is_ours_to_speak(struct slice protocol)
{
    struct slice name = name_of(protocol);

    return (name.len >= 2 && ascii_lower(name.base[0]) == 'h' && name.base[1] >= '2' &&
            name.base[1] <= '9') ||
           slice_eq_nocase(name, SLICE("http")) || slice_eq_nocase(name, SLICE("https")) ||
           slice_eq_nocase(name, SLICE("tls")) || slice_eq_nocase(name, SLICE("ssl"));
}

void upgrade_write(struct slice asked, struct text *out)
{
    struct slice rest = asked, protocol;
    bool is_first = true;

    while (list_next(&rest, &protocol))
        if (protocol.len > 0 && !is_protocol(protocol))
            return;
    rest = asked;
    while (list_next(&rest, &protocol)) {
        if (protocol.len == 0 || is_ours_to_speak(protocol))
            continue;
        if (!is_first)
            text_add(out, SLICE(","));
        text_add(out, protocol);
        is_first = false;
    }
}

bool connection_names_upgrade(struct slice connection)
{
    struct slice option;

    while (list_next(&connection, &option))
        if (slice_eq_nocase(option, SLICE("upgrade")))
            return true;
    return false;
}

static bool was_asked(struct slice asked, struct slice protocol)
{
    struct slice one;

    while (list_next(&asked, &one))
        if (slice_eq_nocase(one, protocol))
            return true;
    return false;
}

struct slice upgrade_agreed(struct slice asked, const struct header *headers, size_t count)
{
    struct slice protocol = {NULL, 0};
    bool is_named = false;
    size_t fields = 0;

    for (size_t i = 0; i < count; i++) {
        if (slice_eq(headers[i].name, SLICE("upgrade"))) {
            protocol = headers[i].value;
            fields++;
        } else if (slice_eq(headers[i].name, SLICE("connection"))) {
            is_named = is_named || connection_names_upgrade(headers[i].value);
        }
    }
    return fields == 1 && is_named && protocol.len > 0 && was_asked(asked, protocol) ? protocol
                                                                                     : slice_of(NULL, 0);
}
