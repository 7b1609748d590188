/* Claims: see store_memory_claims.h.
 *
 * A key's claims and its object are read and changed with the key's shard locked: fill stores the object
 * before it ends the claim, and lookup reads both under the same lock, so nobody finds neither and loads
 * again what was just loaded. Locks: a shard's before the near cache's.
 */
#include "store_memory_claims.h"

#include "check.h"
#include "digest.h"
#include "expiry_map.h"
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Claims are made by requests and so bounded by nothing else. Full of living ones, a shard makes no more:
 * whoever would have to load goes alone and stores nothing, which is right, only slower. */
enum { SHARDS = 16, MOST_PER_SHARD = 65536 };

enum claim_kind {
    CLAIM_LOCK,   /* `token` loads */
    CLAIM_PASS,   /* the last answer was not to be shared */
    CLAIM_FAILED, /* the load of `token` failed with `status` */
};

struct claim {
    struct expiry_node node; /* first; expires_at in monotonic milliseconds */
    struct key32 key;
    enum claim_kind kind;
    struct load_token token;
    int64_t epoch; /* at which the load began */
    int status;
    bool is_awaited; /* somebody was told to wait for its end */
    int64_t
        passes_until_ms; /* of a lock: until then what it found, a pass marker, would have lasted; 0: no marker */
};

struct shard {
    pthread_mutex_t lock;
    struct expiry_map claims;
} __attribute__((aligned(64)));

struct claims {
    struct shard shards[SHARDS];
    struct near *near;
    uint64_t secret; /* clients choose the keys */
};

static uint64_t hash_key(const struct claims *claims, const struct key32 *key)
{
    uint64_t word;

    memcpy(&word, key->bytes, sizeof(word));
    word = (word ^ claims->secret) * (claims->secret | 1);
    return word >> 32; /* the upper half is the well mixed one */
}

static struct shard *shard_of(struct claims *claims, uint64_t hash)
{
    return &claims->shards[hash >> 28];
}

static bool same_token(struct load_token a, struct load_token b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

static bool is_token(struct load_token token)
{
    return token.hi != 0 || token.lo != 0;
}

static struct claim *claim_of(struct expiry_node *node)
{
    return (struct claim *)(void *)node; /* its first member */
}

static void free_claim(struct expiry_node *node)
{
    free(claim_of(node));
}

static void end_claim(struct shard *shard, struct claim *claim)
{
    expiry_map_remove(&shard->claims, &claim->node);
    free_claim(&claim->node);
}

/* The key's claim, or NULL; an ended one is still there. */
static struct claim *find(struct shard *shard, uint64_t hash, const struct key32 *key)
{
    for (struct expiry_node *node = expiry_map_first(&shard->claims, hash); node != NULL; node = node->next)
        if (memcmp(&claim_of(node)->key, key, sizeof(*key)) == 0)
            return claim_of(node);
    return NULL;
}

static bool is_live(const struct claim *claim, struct mono_ms now)
{
    return claim != NULL && claim->node.expires_at > now.ms;
}

static bool is_held(const struct claim *claim, struct load_token token, struct mono_ms now)
{
    return is_live(claim, now) && claim->kind == CLAIM_LOCK && same_token(claim->token, token);
}

static int64_t ends_at(struct mono_ms now, int64_t lasts_ms)
{
    static const int64_t longest_ms = (int64_t)1 << 47;

    return now.ms + (lasts_ms < 1 ? 1 : lasts_ms > longest_ms ? longest_ms : lasts_ms);
}

/* What a lookup works with, its shard locked. */
struct look {
    struct claims *claims;
    struct shard *shard;
    uint64_t hash;
    struct claim *claim; /* may have ended */
    const struct lookup_ask *ask;
    struct mono_ms now;
};

/* Makes the asker the one who loads. False: no room for another claim. */
static bool take_lock(struct look *look, struct lookup_answer *answer)
{
    struct claim *claim = look->claim;
    int64_t passes_until_ms = 0;

    if (is_live(claim, look->now))
        passes_until_ms = claim->kind == CLAIM_PASS ? claim->node.expires_at : claim->passes_until_ms;
    if (claim == NULL) {
        expiry_map_sweep(&look->shard->claims, look->now.ms, free_claim);
        if (look->shard->claims.count >= MOST_PER_SHARD)
            return false;
        claim = must_alloc(sizeof(*claim));
        claim->key = look->ask->key;
        claim->node.hash = look->hash;
        expiry_map_add(&look->shard->claims, &claim->node);
        look->claim = claim;
    }
    /* is_awaited stays: who waited for a holder that is taken over waits for this one now */
    claim->kind = CLAIM_LOCK;
    claim->passes_until_ms = passes_until_ms;
    claim->token = load_token_new();
    claim->epoch = near_epoch(look->claims->near);
    claim->node.expires_at = ends_at(look->now, look->ask->lease_ms);
    answer->load = claim->token;
    answer->epoch = claim->epoch;
    return true;
}

/* Nobody waits for a load where the last answer could not be shared: this one will hardly be another. */
static enum lookup_kind kind_of_load(const struct claim *claim)
{
    return claim->passes_until_ms > 0 ? LOOKUP_PROBE : LOOKUP_LOAD;
}

/* A living lock whose load may still be stored: one that began before an invalidation of these tags is not
 * worth waiting for. */
static bool is_being_loaded(const struct look *look)
{
    return is_live(look->claim, look->now) && look->claim->kind == CLAIM_LOCK &&
           !near_is_outdated(look->claims->near, look->claim->epoch, look->ask->tags, look->ask->tag_count);
}

/* What follows once there is no object to be served as it is; answer->object may be one for an upstream
 * error. */
static void answer_absent(struct look *look, struct lookup_answer *answer)
{
    struct claim *claim = look->claim;
    bool is_lived = is_live(claim, look->now);

    if (is_being_loaded(look) && claim->passes_until_ms > 0) {
        answer->kind = LOOKUP_PASS;
    } else if (is_being_loaded(look)) {
        claim->is_awaited = true;
        answer->kind = LOOKUP_WAIT;
        answer->load = claim->token;
        answer->wait_ms = claim->node.expires_at - look->now.ms;
    } else if (is_lived && claim->kind == CLAIM_FAILED &&
               ((answer->object != NULL && look->now.ms < answer->object->error_until.ms) ||
                (is_token(look->ask->waited) && same_token(claim->token, look->ask->waited)))) {
        answer->kind = LOOKUP_FAILED;
        answer->status = claim->status;
    } else {
        answer->kind = take_lock(look, answer) ? kind_of_load(look->claim) : LOOKUP_PASS;
    }
}

static void answer_new(struct look *look, struct lookup_answer *answer)
{
    bool may_load = !is_being_loaded(look) && take_lock(look, answer);

    answer->kind = may_load ? kind_of_load(look->claim) : LOOKUP_PASS;
}

static void answer_stale(struct look *look, struct lookup_answer *answer)
{
    answer->kind = LOOKUP_STALE;
    if (is_live(look->claim, look->now) && (look->claim->kind != CLAIM_LOCK || is_being_loaded(look)))
        return; /* somebody refreshes, or a refresh has just failed */
    take_lock(look, answer);
}

static void drop_stand_in(struct lookup_answer *answer)
{
    if (answer->kind == LOOKUP_PASS)
        object_release(&answer->object);
}

void claims_lookup(struct claims *claims, const struct lookup_ask *ask, struct mono_ms now,
                   struct lookup_answer *answer_out)
{
    struct look look = {.claims = claims, .hash = hash_key(claims, &ask->key), .ask = ask, .now = now};

    *answer_out =
        (struct lookup_answer){.kind = LOOKUP_FRESH, .object = near_find(claims->near, &ask->key, now)};
    if (answer_out->object != NULL && now.ms < answer_out->object->fresh_until.ms && !ask->wants_new)
        return; /* the common case needs no claim */
    if (ask->lease_ms == 0) {
        bool is_servable = answer_out->object != NULL && now.ms < answer_out->object->stale_until.ms;

        answer_out->kind = is_servable ? LOOKUP_STALE : LOOKUP_ABSENT;
        return;
    }
    object_release(&answer_out->object);

    look.shard = shard_of(claims, look.hash);
    pthread_mutex_lock(&look.shard->lock);
    answer_out->object = near_find(claims->near, &ask->key, now); /* again: a load may have ended since */
    if (answer_out->object == NULL || now.ms >= answer_out->object->fresh_until.ms || ask->wants_new) {
        look.claim = find(look.shard, look.hash, &ask->key);
        if (ask->wants_new)
            answer_new(&look, answer_out);
        else if (answer_out->object != NULL && now.ms < answer_out->object->stale_until.ms)
            answer_stale(&look, answer_out);
        else
            answer_absent(&look, answer_out);
    }
    pthread_mutex_unlock(&look.shard->lock);
    drop_stand_in(answer_out);
}

enum fill_result claims_fill(struct claims *claims, const struct key32 *key, struct load_token token,
                             struct object *object, struct mono_ms now, bool *wake_out)
{
    uint64_t hash = hash_key(claims, key);
    struct shard *shard = shard_of(claims, hash);
    enum fill_result result = FILL_SUPERSEDED;

    *wake_out = false;
    pthread_mutex_lock(&shard->lock);
    struct claim *claim = find(shard, hash, key);

    if (is_held(claim, token, now)) {
        /* not what the object says of itself, save that its load began before its lock was taken */
        int64_t began = object->epoch < claim->epoch ? object->epoch : claim->epoch;

        if (near_is_void(claims->near, began, object->tags, object->tag_count)) {
            result = FILL_INVALIDATED;
        } else {
            near_put(claims->near, object);
            result = FILL_STORED;
        }
        *wake_out = claim->is_awaited;
        end_claim(shard, claim);
    }
    pthread_mutex_unlock(&shard->lock);
    return result;
}

/* Turns a lock into what shall be remembered of it, or ends it. */
static void leave_marker(struct shard *shard, struct claim *claim, enum claim_kind kind, int64_t marker_ms,
                         struct mono_ms now)
{
    if (marker_ms <= 0) {
        end_claim(shard, claim);
        return;
    }
    claim->kind = kind;
    claim->is_awaited = false;
    claim->passes_until_ms = 0;
    claim->node.expires_at = ends_at(now, marker_ms);
}

/* The load ended without an answer: what was known before it is still all that is known. */
static void leave_as_before(struct shard *shard, struct claim *claim, struct mono_ms now)
{
    leave_marker(shard, claim, CLAIM_PASS, claim->passes_until_ms - now.ms, now);
}

bool claims_release(struct claims *claims, const struct key32 *key, struct load_token token,
                    enum release_reason why, int status, int64_t marker_ms, struct mono_ms now,
                    bool *wake_out)
{
    uint64_t hash = hash_key(claims, key);
    struct shard *shard = shard_of(claims, hash);

    *wake_out = false;
    pthread_mutex_lock(&shard->lock);
    struct claim *claim = find(shard, hash, key);
    bool was_held = is_held(claim, token, now);

    if (was_held) {
        *wake_out = claim->is_awaited;
        switch (why) {
        case RELEASE_FAILED:
            if (claim->passes_until_ms > 0) {
                leave_as_before(shard, claim, now);
                break;
            }
            claim->status = status;
            leave_marker(shard, claim, CLAIM_FAILED, marker_ms, now);
            break;
        case RELEASE_UNCACHEABLE:
            near_drop(claims->near, key);
            leave_marker(shard, claim, CLAIM_PASS, marker_ms, now);
            break;
        case RELEASE_CANCELLED: leave_as_before(shard, claim, now); break;
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return was_held;
}

bool claims_renew(struct claims *claims, const struct key32 *key, struct load_token token, int64_t lease_ms,
                  struct mono_ms now)
{
    uint64_t hash = hash_key(claims, key);
    struct shard *shard = shard_of(claims, hash);

    pthread_mutex_lock(&shard->lock);
    struct claim *claim = find(shard, hash, key);
    bool was_held = is_held(claim, token, now);

    if (was_held)
        claim->node.expires_at = ends_at(now, lease_ms);
    pthread_mutex_unlock(&shard->lock);
    return was_held;
}

size_t claims_count(struct claims *claims)
{
    size_t sum = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&claims->shards[i].lock);
        sum += claims->shards[i].claims.count;
        pthread_mutex_unlock(&claims->shards[i].lock);
    }
    return sum;
}

struct claims *claims_new(struct near *near)
{
    struct claims *claims = aligned_alloc(_Alignof(struct claims), sizeof(*claims));

    CHECK(claims != NULL);
    memset(claims, 0, sizeof(*claims));
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&claims->shards[i].lock, NULL);
    claims->near = near;
    digest_random(&claims->secret, sizeof(claims->secret));
    return claims;
}

void claims_free(struct claims *claims)
{
    for (size_t i = 0; i < SHARDS; i++) {
        expiry_map_clear(&claims->shards[i].claims, free_claim);
        pthread_mutex_destroy(&claims->shards[i].lock);
    }
    free(claims);
}
