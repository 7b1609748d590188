/* Script rig: a Redis of the test's own, and the scripts in it. */
#ifndef WEIR_SCRIPT_RIG_H
#define WEIR_SCRIPT_RIG_H

#include "redis_fixture.h"
#include "support_admit.h"

static struct redis_fixture fixture;
static redisContext *redis;

static void start(void)
{
    fixture = redis_fixture_start();
    redis = redis_fixture_connect(&fixture);
    script_load(redis);
}

static void stop(void)
{
    redisFree(redis);
    redis_fixture_stop(&fixture);
}

#endif
