/* Principals: see principals.h. */
#include "principals.h"
#include "digest.h"
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1024, TEXT_ROOM = 104 };

struct remembered {
    uint8_t kind_len, value_len; /* both 0: empty */
    char text[TEXT_ROOM];        /* kind, then value */
    unsigned char principal[16];
};

struct principals {
    struct remembered places[PLACES];
};

struct principals *principals_new(void)
{
    return must_alloc(sizeof(struct principals));
}

void principals_free(struct principals *principals)
{
    free(principals);
}

static bool is_same(const struct remembered *place, struct slice kind, struct slice value)
{
    return place->kind_len == kind.len && place->value_len == value.len &&
           memcmp(place->text, kind.base, kind.len) == 0 &&
           (value.len == 0 || memcmp(place->text + kind.len, value.base, value.len) == 0);
}

static uint32_t place_of(struct slice kind, struct slice value)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < kind.len; i++)
        hash = (hash ^ (unsigned char)kind.base[i]) * 16777619u;
    for (size_t i = 0; i < value.len; i++)
        hash = (hash ^ (unsigned char)value.base[i]) * 16777619u;
    return (hash ^ (hash >> 15)) % PLACES;
}

void principal_of(struct principals *principals, struct slice kind, struct slice value, unsigned char out[16])
{
    struct remembered *place;

    if (kind.len == 0 || kind.len + value.len > TEXT_ROOM) {
        digest_principal(kind, value, out);
        return;
    }
    place = &principals->places[place_of(kind, value)];
    if (!is_same(place, kind, value)) {
        digest_principal(kind, value, place->principal);
        place->kind_len = (uint8_t)kind.len;
        place->value_len = (uint8_t)value.len;
        memcpy(place->text, kind.base, kind.len);
        if (value.len > 0)
            memcpy(place->text + kind.len, value.base, value.len);
    }
    memcpy(out, place->principal, sizeof(place->principal));
}
