/* Cache rig: a Redis of the test's own with the cache's scripts, their time, and the questions that most tests ask. */
#ifndef WEIR_CACHE_RIG_H
#define WEIR_CACHE_RIG_H

#include "redis_fixture.h"
#include "support_admit.h"
#include "support_cache.h"

static struct redis_fixture fixture;
static redisContext *redis;
static int64_t now_us;

#define TOKEN_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define TOKEN_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define TOKEN_C "cccccccccccccccccccccccccccccccc"
#define TAGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void start(void)
{
    fixture = redis_fixture_start();
    redis = redis_fixture_connect(&fixture);
    now_us = server_now_us(redis);
}

static void stop(void)
{
    redisFree(redis);
    redis_fixture_stop(&fixture);
}

/* Most tests are about one key with one tag, which the route declares. */
static struct looked ask(const char *token, const char *waited)
{
    return look(redis, (struct lookup_words){
                           .key = "k", .token = token, .waited = waited, .now_us = now_us, .tags = {"tag"}});
}

static const char *land(const char *token, int64_t began)
{
    return fill(redis, (struct fill_words){.key = "k",
                                           .token = token,
                                           .bytes = "body",
                                           .now_us = now_us,
                                           .began = began,
                                           .fresh_s = 10,
                                           .stale_s = 20,
                                           .error_s = 40,
                                           .age_s = 3,
                                           .tags = {"tag"}});
}

#endif
