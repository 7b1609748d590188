/* Json scan: see json_scan.h. */
#include "json_scan.h"

#include "http_char.h"

/* Outside of strings JSON has these alone. */
static bool is_plain(char c)
{
    switch (c) {
    case ' ':
    case '\t':
    case '\r':
    case '\n':
    case '{':
    case '}':
    case '[':
    case ']':
    case ',':
    case ':':
    case '+':
    case '-':
    case '.':
    case 'E': return true;
    }
    return is_digit(c) || (c >= 'a' && c <= 'z');
}

/* From behind the opening quote to behind the closing one. */
static bool skip_string(struct slice text, size_t *at, bool *holds_nul)
{
    *holds_nul = false;
    while (*at < text.len) {
        char c = text.base[(*at)++];

        if (c == '"')
            return true;
        if ((unsigned char)c < 0x20)
            return false;
        if (c != '\\')
            continue;
        if (text.len - *at >= 5 && memcmp(text.base + *at, "u0000", 5) == 0)
            *holds_nul = true;
        *at += 1; /* what is escaped ends nothing */
    }
    return false;
}

bool json_scan(struct slice text, size_t *members_out)
{
    size_t members = 0, containers = 0;
    bool holds_nul = false;

    for (size_t at = 0; at < text.len;) {
        char c = text.base[at++];

        if (c == '"') {
            if (!skip_string(text, &at, &holds_nul))
                return false;
            continue;
        }
        if (!is_plain(c))
            return false;
        if (c == ':') {
            if (holds_nul) /* of the string before it */
                return false;
            members++;
        }
        if ((c == '{' || c == '[') && ++containers > JSON_MAX_CONTAINERS)
            return false;
    }
    *members_out = members;
    return true;
}
