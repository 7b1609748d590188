/* Store memory, against a naive model: the same promises, told once more in the plainest way, against random histories. */
#include "store_memory_rig.h"

#include <criterion/criterion.h>

enum { MODEL_KEYS = 4, MODEL_TAGS = 3, MODEL_STEPS = 60000 };
static const char *const model_tags[MODEL_TAGS] = {"a", "b", "c"};

struct model_key {
    bool has_object;
    int64_t object_epoch, fresh_until, stale_until, error_until;
    int object_tag;
    char claim; /* 0, 'L'ock, 'P'ass, 'F'ailed */
    struct load_token token;
    int64_t claim_epoch, claim_until;
    int64_t pass_until; /* of a lock: of the marker that it found, 0: none */
    int status;
    bool is_awaited;  /* by somebody whose wait_ms is not over */
    bool was_awaited; /* or is: may be woken, but does not rely on it */
};

struct model {
    struct model_key keys[MODEL_KEYS];
    int64_t stamps[MODEL_TAGS], epoch;
    size_t wakes_owed, wakes_at_most;
};

static struct lookup_answer model_look(struct model *m, int k, int tag, struct load_token waited, int64_t now)
{
    struct model_key *key = &m->keys[k];
    struct lookup_answer want = {0};
    bool is_loading;

    if (key->has_object && (m->stamps[key->object_tag] > key->object_epoch ||
                            (now >= key->stale_until && now >= key->error_until)))
        key->has_object = false;
    if (key->claim != 0 && now >= key->claim_until)
        key->claim = 0;
    if (key->claim == 0)
        key->is_awaited = false;
    want.object = key->has_object ? (struct object *)1 : NULL;
    is_loading = key->claim == 'L' && m->stamps[tag] <= key->claim_epoch;
    if (key->has_object && now < key->fresh_until) {
        want.kind = LOOKUP_FRESH;
        return want;
    }
    if (key->has_object && now < key->stale_until) {
        want.kind = LOOKUP_STALE;
        if (is_loading || key->claim == 'P' || key->claim == 'F')
            return want;
    } else if (is_loading && key->pass_until > 0) {
        want.kind = LOOKUP_PASS;
        want.object = NULL;
        return want;
    } else if (is_loading) {
        want.kind = LOOKUP_WAIT;
        want.wait_ms = key->claim_until - now;
        want.load = key->token;
        key->is_awaited = key->was_awaited = true;
        return want;
    } else if (key->claim == 'F' && (key->has_object || same(key->token, waited))) {
        want.kind = LOOKUP_FAILED;
        want.status = key->status;
        return want;
    } else {
        bool found_marker = key->claim == 'P' || (key->claim == 'L' && key->pass_until > 0);

        want.kind = found_marker ? LOOKUP_PROBE : LOOKUP_LOAD;
    }
    if (key->claim == 'P')
        key->pass_until = key->claim_until;
    else if (key->claim != 'L')
        key->pass_until = 0;
    key->claim = 'L';
    key->claim_epoch = want.epoch = m->epoch;
    key->claim_until = now + LEASE_MS;
    want.load = (struct load_token){1, 1}; /* a new one, whichever */
    return want;
}

static bool model_end(struct model *m, int k, struct load_token token, int64_t now)
{
    struct model_key *key = &m->keys[k];

    if (key->claim != 'L' || now >= key->claim_until || !same(key->token, token))
        return false;
    m->wakes_owed += key->is_awaited;
    m->wakes_at_most += key->was_awaited;
    key->is_awaited = key->was_awaited = false;
    key->claim = 0;
    return true;
}

/* A history of both, side by side. */
struct history {
    struct fixture f;
    struct model m;
    int step;
    struct load_token known[MODEL_KEYS][4]; /* some tokens that the key has had; [0] the latest */
    size_t kinds[LOOKUP_FAILED + 1];
};

static void step_look(struct history *h, int k, int tag, struct load_token token)
{
    struct lookup_answer want = model_look(&h->m, k, tag, token, now_ms().ms);
    struct lookup_answer got = look_as_waiter(&h->f, (uint64_t)k, model_tags[tag], token);

    h->kinds[got.kind]++;
    cr_assert_eq(got.kind, want.kind, "step %d: %d, not %d", h->step, got.kind, want.kind);
    cr_assert_eq(got.object != NULL, want.object != NULL, "step %d kind %d", h->step, got.kind);
    cr_assert_eq(got.epoch, want.epoch, "step %d", h->step);
    cr_assert_eq(got.wait_ms, want.wait_ms, "step %d", h->step);
    cr_assert_eq(got.status, want.status, "step %d", h->step);
    cr_assert_eq(is_none(got.load), is_none(want.load), "step %d", h->step);
    if (got.kind == LOOKUP_WAIT)
        cr_assert(same(got.load, want.load));
    if (got.kind == LOOKUP_LOAD || got.kind == LOOKUP_PROBE ||
        (got.kind == LOOKUP_STALE && !is_none(got.load))) {
        h->m.keys[k].token = got.load;
        memmove(&h->known[k][1], &h->known[k][0], 3 * sizeof(h->known[k][0]));
        h->known[k][0] = got.load;
    }
    object_release(&got.object);
}

static void step_fill(struct history *h, int k, int tag, struct load_token token)
{
    struct model_key *key = &h->m.keys[k];
    int64_t fresh = rand() % 40, stale = fresh + rand() % 40, error = fresh + rand() % 40;
    int64_t epoch = key->claim_epoch, now = now_ms().ms;
    struct lookup_answer load = {.load = token, .epoch = epoch};
    enum fill_result got = fill_lives(&h->f, (uint64_t)k, load, model_tags[tag], fresh, stale, error),
                     want = FILL_SUPERSEDED;

    if (model_end(&h->m, k, token, now)) {
        want = h->m.stamps[tag] > epoch ? FILL_INVALIDATED : FILL_STORED;
        if (want == FILL_STORED) {
            key->has_object = true;
            key->object_epoch = epoch;
            key->object_tag = tag;
            key->fresh_until = now + fresh;
            key->stale_until = now + stale;
            key->error_until = now + error;
        }
    }
    cr_assert_eq(got, want, "step %d", h->step);
}

static void step_release(struct history *h, int k, int tag, struct load_token token)
{
    struct model_key *key = &h->m.keys[k];
    enum release_reason why = (enum release_reason)(rand() % 3);
    int64_t marker_ms = rand() % 4 == 0 ? 0 : rand() % 60, now = now_ms().ms;
    bool got = release(&h->f, (uint64_t)k, token, why, 500 + tag, marker_ms),
         want = model_end(&h->m, k, token, now);

    cr_assert_eq(got, want, "step %d", h->step);
    if (want && why != RELEASE_UNCACHEABLE && key->pass_until > 0) {
        key->claim = now < key->pass_until ? 'P' : 0;
        key->claim_until = key->pass_until;
    } else if (want && why != RELEASE_CANCELLED && marker_ms > 0) {
        key->claim = why == RELEASE_FAILED ? 'F' : 'P';
        key->claim_until = now + marker_ms;
        key->status = 500 + tag;
    }
    if (want && why == RELEASE_UNCACHEABLE)
        key->has_object = false;
}

static void step_renew(struct history *h, int k, struct load_token token)
{
    struct model_key *key = &h->m.keys[k];
    int64_t now = now_ms().ms;
    bool want = key->claim == 'L' && now < key->claim_until && same(key->token, token);

    cr_assert_eq(renew(&h->f, (uint64_t)k, token, 100), want, "step %d", h->step);
    if (want)
        key->claim_until = now + 100;
}

static void take_step(struct history *h)
{
    int k = rand() % MODEL_KEYS, tag = rand() % MODEL_TAGS;
    struct load_token token = h->known[k][rand() % 3 == 0 ? rand() % 4 : 0];

    switch (rand() % 12) {
    case 0:
    case 1: step_fill(h, k, tag, token); break;
    case 2: step_release(h, k, tag, token); break;
    case 3: step_renew(h, k, token); break;
    case 4:
        if (rand() % 3 == 0)
            h->m.stamps[tag] = h->m.epoch = invalidate(&h->f, model_tags[tag]);
        break;
    case 5: pass_ms(rand() % 30); break;
    case 6:
        if (rand() % 20 == 0)
            pass_ms(LEASE_MS);
        break;
    default: step_look(h, k, tag, token); break;
    }
}

Test(store_memory_naive, agrees_with_a_naive_model)
{
    struct history h = {0};

    set_up(&h.f);
    srand(5);
    for (h.step = 0; h.step < MODEL_STEPS; h.step++)
        take_step(&h);
    wakes_after_turns(&h.f);
    cr_assert_gt(h.m.wakes_owed, 100);
    cr_assert_geq(h.f.wakes, h.m.wakes_owed);
    cr_assert_leq(h.f.wakes, h.m.wakes_at_most);
    for (int kind = 0; kind <= LOOKUP_FAILED; kind++)
        cr_assert_gt(h.kinds[kind], 100, "kind %d was hardly met", kind);
    tear_down(&h.f);
}
