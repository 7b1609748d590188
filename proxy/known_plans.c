/* Known plans: see known_plans.h.
 *
 * A mark is the age of the whole (which every general doubt ends) and the changes of the caller's set, of which only the lower
 * half is kept: an answer would have to be on its way for four thousand million changes to be taken for a new one.
 */
#include "known_plans.h"

#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SETS = 8192, PLACES = 8, LOCKS = 64 };

struct place {
    unsigned char principal[PRINCIPAL_BYTES];
    struct plan_name name;
    bool is_taken;
    bool is_sure; /* nobody has changed it since */
    uint32_t age; /* in which it was learnt */
    int64_t until_us;
};

struct set {
    uint32_t changes;
    uint32_t hand; /* the place that goes next, where all are as good */
    struct place places[PLACES];
};

struct known_plans {
    _Atomic uint32_t age;
    _Atomic bool is_told;
    pthread_mutex_t locks[LOCKS];
    struct set sets[SETS];
};

struct plan_name plan_name_of(struct slice text)
{
    struct plan_name name = {0};

    name.len = (unsigned char)(text.len < sizeof(name.text) ? text.len : sizeof(name.text));
    if (name.len > 0)
        memcpy(name.text, text.base, name.len);
    return name;
}

struct slice plan_name_text(const struct plan_name *name)
{
    return slice_of(name->text, name->len);
}

/* ---- places ---- */

static size_t set_index(const unsigned char principal[PRINCIPAL_BYTES])
{
    uint32_t word;

    memcpy(&word, principal, sizeof(word)); /* a digest */
    return word % SETS;
}

static struct set *lock_set(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES])
{
    size_t index = set_index(principal);

    pthread_mutex_lock(&plans->locks[index % LOCKS]);
    return &plans->sets[index];
}

static void unlock_set(struct known_plans *plans, const struct set *set)
{
    pthread_mutex_unlock(&plans->locks[(size_t)(set - plans->sets) % LOCKS]);
}

static struct place *place_of(struct set *set, const unsigned char principal[PRINCIPAL_BYTES])
{
    for (size_t i = 0; i < PLACES; i++)
        if (set->places[i].is_taken &&
            memcmp(set->places[i].principal, principal, sizeof(set->places[i].principal)) == 0)
            return &set->places[i];
    return NULL;
}

static uint32_t age_of(const struct known_plans *plans)
{
    return atomic_load(&plans->age);
}

/* Has nobody changed it since? */
static bool counts(const struct known_plans *plans, const struct place *place)
{
    return place->is_sure && place->age == age_of(plans);
}

static bool is_present(const struct known_plans *plans, const struct set *set, uint64_t mark)
{
    return mark == ((uint64_t)age_of(plans) << 32 | set->changes);
}

/* The lower, the sooner another caller may have it. */
static int worth(const struct known_plans *plans, const struct place *place)
{
    if (!place->is_taken)
        return 0;
    if (place->name.len == 0)
        return counts(plans, place) ? 2 : 1;
    return counts(plans, place) ? 4 : 3;
}

static struct place *place_for(struct known_plans *plans, struct set *set,
                               const unsigned char principal[PRINCIPAL_BYTES])
{
    struct place *found = place_of(set, principal);

    if (found != NULL)
        return found;
    found = &set->places[set->hand++ % PLACES];
    for (size_t i = 0; i < PLACES; i++)
        if (worth(plans, &set->places[i]) < worth(plans, found))
            found = &set->places[i];
    return found;
}

/* ---- public ---- */

bool known_plans_find(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES],
                      int64_t now_us, struct plan_name *out)
{
    struct set *set = lock_set(plans, principal);
    const struct place *place = place_of(set, principal);
    bool is_true =
        place != NULL && counts(plans, place) && now_us < place->until_us && atomic_load(&plans->is_told);

    if (is_true)
        *out = place->name;
    unlock_set(plans, set);
    return is_true;
}

bool known_plans_last(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES],
                      struct plan_name *out)
{
    struct set *set = lock_set(plans, principal);
    const struct place *place = place_of(set, principal);
    bool is_there = place != NULL;

    if (is_there)
        *out = place->name;
    unlock_set(plans, set);
    return is_there;
}

uint64_t known_plans_mark(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES])
{
    struct set *set = lock_set(plans, principal);
    uint64_t mark = (uint64_t)age_of(plans) << 32 | set->changes;

    unlock_set(plans, set);
    return mark;
}

void known_plans_learn(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES],
                       uint64_t mark, const struct plan_name *name, int64_t until_us)
{
    struct set *set = lock_set(plans, principal);
    struct place *place = place_for(plans, set, principal);
    bool is_same = place->is_taken && memcmp(place->principal, principal, sizeof(place->principal)) == 0;

    if (is_same && counts(plans, place) && !is_present(plans, set, mark)) {
        unlock_set(plans, set); /* what is known is newer */
        return;
    }
    memcpy(place->principal, principal, sizeof(place->principal));
    place->name = *name;
    place->is_taken = true;
    place->age = (uint32_t)(mark >> 32);
    place->is_sure = is_present(plans, set, mark);
    place->until_us = until_us;
    unlock_set(plans, set);
}

void known_plans_doubt(struct known_plans *plans, const unsigned char principal[PRINCIPAL_BYTES])
{
    struct set *set = lock_set(plans, principal);
    struct place *place = place_of(set, principal);

    set->changes++;
    if (place != NULL)
        place->is_sure = false;
    unlock_set(plans, set);
}

void known_plans_doubt_all(struct known_plans *plans)
{
    atomic_fetch_add(&plans->age, 1);
}

void known_plans_set_told(struct known_plans *plans, bool is_told)
{
    if (is_told)
        known_plans_doubt_all(plans);
    atomic_store(&plans->is_told, is_told);
}

struct known_plans *known_plans_new(void)
{
    struct known_plans *plans = must_alloc(sizeof(*plans));

    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_init(&plans->locks[i], NULL);
    return plans;
}

void known_plans_free(struct known_plans *plans)
{
    if (plans == NULL)
        return;
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&plans->locks[i]);
    free(plans);
}
