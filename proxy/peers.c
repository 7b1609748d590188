/* Peers: see peers.h.
 *
 * Never more entries than connections, so the chains stay short; the hash need not resist an attacker, who
 * would have to own the colliding addresses and is bounded by max_connections all the same.
 */
#include "peers.h"

#include "check.h"
#include "list.h"
#include "memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { BUCKETS = 4096, IPV6_PREFIX = 64 };

struct peer {
    struct link link;
    struct address address;
    int connections;
};

struct peers {
    pthread_mutex_t lock;
    struct link buckets[BUCKETS];
};

struct peers *peers_new(void)
{
    struct peers *peers = must_alloc(sizeof(*peers));

    pthread_mutex_init(&peers->lock, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&peers->buckets[i]);
    return peers;
}

void peers_free(struct peers *peers)
{
    for (size_t i = 0; i < BUCKETS; i++)
        CHECK(list_is_empty(&peers->buckets[i]));
    pthread_mutex_destroy(&peers->lock);
    free(peers);
}

static struct link *bucket_of(struct peers *peers, const struct address *address)
{
    uint64_t high, low;

    memcpy(&high, address->bytes, sizeof(high));
    memcpy(&low, address->bytes + sizeof(high), sizeof(low));
    return &peers
                ->buckets[((high * UINT64_C(0x9e3779b97f4a7c15)) ^ low) * UINT64_C(0xd6e8feb86659fd93) >> 52];
}

static struct peer *find_or_add(struct peers *peers, const struct address *group)
{
    struct link *bucket = bucket_of(peers, group);
    struct peer *peer;

    for (struct link *link = bucket->next; link != bucket; link = link->next) {
        peer = LIST_OWNER(link, struct peer, link);
        if (memcmp(peer->address.bytes, group->bytes, sizeof(group->bytes)) == 0)
            return peer;
    }
    peer = must_alloc(sizeof(*peer));
    peer->address = *group;
    list_init(&peer->link);
    list_append(bucket, &peer->link);
    return peer;
}

struct peer *peers_join(struct peers *peers, const struct address *address, int *connections)
{
    struct address group = address_group(address, IPV6_PREFIX);
    struct peer *peer;

    pthread_mutex_lock(&peers->lock);
    peer = find_or_add(peers, &group);
    *connections = ++peer->connections;
    pthread_mutex_unlock(&peers->lock);
    return peer;
}

void peers_leave(struct peers *peers, struct peer *peer)
{
    pthread_mutex_lock(&peers->lock);
    if (--peer->connections == 0) {
        list_leave(&peer->link);
        free(peer);
    }
    pthread_mutex_unlock(&peers->lock);
}
