/* Load answer: what a load received: shared, for one alone, or an error for all; with which tags, for how
 * long. */
#include "fake_origin.h"
#include "load_answer.h"
#include "loop.h"
#include "objects.h"
#include "test_site.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(load_answer, .timeout = 20);

static struct loop *loop;
static struct site *site;
static struct stream *stream;
static struct load_plan plan;
static struct load_answer answer;
static struct slice route_tag;
static const char *why;

static const struct stream_owner OWNER = {.on_head = NULL};

static void start(size_t route)
{
    loop = loop_new();
    site = test_site_new(loop);
    route_tag = SLICE("declared");
    plan = (struct load_plan){
        .site = site,
        .route = &site_settings(site)->routes[route],
        .key = test_key(1),
        .tags = &route_tag,
        .tag_count = 1,
        .request = {.method = SLICE("GET"), .target = SLICE("/"), .authority = SLICE("localhost")},
    };
    stream = stream_start(site, plan.route->upstream, &plan.request, &OWNER, NULL);
}

static void stop(void)
{
    load_answer_clear(&answer);
    stream_disown(&stream, true);
    site_release(&site);
    loop_turn(loop, 0);
    loop_free(loop);
    memset(&fake_origin, 0, sizeof(fake_origin));
    memset(&answer, 0, sizeof(answer));
}

static enum answer_kind judge(int status, int64_t content_length, const struct header *headers, size_t count)
{
    fetch_head(0, status, content_length, headers, count);
    return load_answer_judge(&answer, stream, &plan, &why);
}

static enum answer_kind judge_one(int status, const char *name, const char *value)
{
    struct header header = {slice_text(name), slice_text(value)};

    return judge(status, -1, &header, name == NULL ? 0 : 1);
}

Test(load_answer, who_may_have_it)
{
    static const struct {
        const char *story;
        int status;
        const char *name, *value;
        bool has_authorization;
        enum answer_kind want;
    } rows[] = {
        {"an ordinary one is for all", 200, NULL, NULL, false, ANSWER_SHARED},
        {"so is one that is not there", 404, NULL, NULL, false, ANSWER_SHARED},
        {"private", 200, "cache-control", "private", false, ANSWER_UNSHARED},
        {"no-store", 200, "cache-control", "no-store", false, ANSWER_UNSHARED},
        {"a cookie", 200, "set-cookie", "a=b", false, ANSWER_UNSHARED},
        {"varies by a field: for those who send it likewise", 200, "vary", "accept-language", false,
         ANSWER_SHARED},
        {"varies by everything", 200, "vary", "*", false, ANSWER_UNSHARED},
        {"varies by everything, among others", 200, "vary", "accept-encoding, *", false, ANSWER_UNSHARED},
        {"varies by what is no field", 200, "vary", "accept encoding", false, ANSWER_UNSHARED},
        {"a status that is not listed", 201, NULL, NULL, false, ANSWER_UNSHARED},
        {"to credentials, and it does not say public", 200, NULL, NULL, true, ANSWER_PERSONAL},
        {"to credentials, and not at all for others", 200, "cache-control", "private, must-revalidate", true,
         ANSWER_PERSONAL},
        {"to credentials, and it says public", 200, "cache-control", "public", true, ANSWER_SHARED},
        {"the upstream failed", 500, NULL, NULL, false, ANSWER_ERROR},
        {"bad gateway", 502, NULL, NULL, false, ANSWER_ERROR},
        {"unavailable", 503, NULL, NULL, false, ANSWER_ERROR},
        {"timeout", 504, NULL, NULL, false, ANSWER_ERROR},
        {"not implemented is no passing failure", 501, NULL, NULL, false, ANSWER_UNSHARED},
        {"a failure that says something private", 500, "cache-control", "private", false,
         ANSWER_ERROR_UNSHARED},
        {"perhaps", 500, "cache-control", "private; x", false, ANSWER_ERROR_UNSHARED},
        {"a failure that sets a cookie", 503, "set-cookie", "a=b", false, ANSWER_ERROR_UNSHARED},
        {"a failure not to be kept", 503, "cache-control", "no-store", false, ANSWER_ERROR_UNSHARED},
        {"a failure to be asked for each time", 503, "cache-control", "no-cache", false,
         ANSWER_ERROR_UNSHARED},
        {"a failure told by the cookie", 503, "vary", "cookie", false, ANSWER_ERROR_UNSHARED},
        {"a failure that could have been coded", 503, "vary", "Accept-Encoding", false, ANSWER_ERROR},
        {"a failure told to credentials", 500, NULL, NULL, true, ANSWER_PERSONAL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start(ROUTE_PATIENT);
        plan.has_authorization = rows[i].has_authorization;
        cr_assert_eq(judge_one(rows[i].status, rows[i].name, rows[i].value), rows[i].want, "%s",
                     rows[i].story);
        stop();
    }
}

Test(load_answer, more_than_max_object_is_not_shared_where_it_says_so)
{
    start(ROUTE_PATIENT);
    cr_assert_eq(judge(200, 1024, NULL, 0), ANSWER_SHARED, "the bound itself fits");
    stop();
    start(ROUTE_PATIENT);
    cr_assert_eq(judge(200, 1025, NULL, 0), ANSWER_UNSHARED);
    cr_assert_str_eq(why, "too-large");
    stop();
}

/* ---- tags ---- */

static bool has_tag(const char *tag)
{
    for (size_t i = 0; i < answer.tag_count; i++)
        if (slice_eq(answer.tags[i], slice_text(tag)))
            return true;
    return false;
}

Test(load_answer, tags_of_the_route_and_of_the_answer_count_alike_and_once)
{
    struct header headers[] = {
        {SLICE("surrogate-key"), SLICE("one two  declared")},
        {SLICE("cache-tag"), SLICE("not-listened-to")},
        {SLICE("surrogate-key"), SLICE("two,three")},
    };

    start(ROUTE_PATIENT);
    cr_assert_eq(judge(200, -1, headers, 3), ANSWER_SHARED);
    cr_assert_eq(answer.tag_count, 4);
    cr_assert(has_tag("declared") && has_tag("one") && has_tag("two") && has_tag("three"));
    stop();
}

Test(load_answer, what_names_more_tags_than_can_be_kept_is_not_shared)
{
    char value[1024];
    size_t len = 0;

    for (int i = 0; i < ANSWER_MAX_TAGS; i++) /* one more than fit beside the route's own */
        len += (size_t)snprintf(value + len, sizeof(value) - len, "tag%d ", i);
    start(ROUTE_PATIENT);
    cr_assert_eq(judge_one(200, "surrogate-key", value), ANSWER_UNSHARED);
    cr_assert_str_eq(why, "too-many-tags");
    stop();
    len = 0;
    for (int i = 0; i < ANSWER_MAX_TAGS - 1; i++)
        len += (size_t)snprintf(value + len, sizeof(value) - len, "tag%d ", i);
    start(ROUTE_PATIENT);
    cr_assert_eq(judge_one(200, "surrogate-key", value), ANSWER_SHARED);
    cr_assert_eq(answer.tag_count, ANSWER_MAX_TAGS);
    stop();
}

Test(load_answer, a_tag_that_is_too_long_is_not_cut_but_keeps_the_answer_from_being_shared)
{
    char value[ANSWER_MAX_TAG_BYTES + 2];

    memset(value, 't', sizeof(value));
    value[ANSWER_MAX_TAG_BYTES] = '\0';
    start(ROUTE_PATIENT);
    cr_assert_eq(judge_one(200, "surrogate-key", value), ANSWER_SHARED);
    stop();
    value[ANSWER_MAX_TAG_BYTES] = 't';
    value[ANSWER_MAX_TAG_BYTES + 1] = '\0';
    start(ROUTE_PATIENT);
    cr_assert_eq(judge_one(200, "surrogate-key", value), ANSWER_UNSHARED);
    stop();
}

Test(load_answer, what_varies_names_all_that_its_key_must_tell_apart)
{
    start(ROUTE_PATIENT);
    cr_assert_eq(judge_one(200, "vary", "Foo, accept-language"), ANSWER_SHARED);
    cr_assert(answer.has_more);
    cr_assert(slice_eq(slice_of(answer.vary, answer.vary_len), SLICE("accept-language, foo")));
    stop();
    start(ROUTE_PATIENT);
    memcpy(plan.varied, "foo", 3);
    plan.varied_len = 3;
    cr_assert_eq(judge_one(200, "vary", "Foo"), ANSWER_SHARED);
    cr_assert(!answer.has_more, "the key does already");
    stop();
    start(ROUTE_PATIENT);
    cr_assert_eq(judge_one(200, "content-encoding", "gzip"), ANSWER_SHARED);
    cr_assert(answer.has_more, "not everybody can read it, though it does not say so");
    stop();
}

/* ---- the object ---- */

Test(load_answer, the_object_has_what_came_its_epoch_its_tags_and_no_age_field)
{
    struct header headers[] = {
        {SLICE("etag"), SLICE("\"1\"")}, {SLICE("age"), SLICE("7")}, {SLICE("x-last"), SLICE("")}};
    struct lifetimes lifetimes;

    start(ROUTE_PATIENT);
    cr_assert_eq(judge(200, 5, headers, 3), ANSWER_SHARED);
    stream_keep(stream, 1024);
    fetch_body(0, SLICE("hello"));
    fetch_end(0, FAULT_NONE);
    cr_assert(load_answer_finish(&answer, stream, NULL, &plan, 42, &lifetimes));
    cr_assert_eq(answer.object->epoch, 42);
    cr_assert_eq(answer.object->status, 200);
    cr_assert_eq(answer.object->body_bytes, 5);
    cr_assert_eq(answer.object->header_count, 3, "Age is told anew by whoever serves it");
    cr_assert(slice_eq(answer.object->headers[1].name, SLICE("x-last")));
    cr_assert(slice_eq(answer.object->headers[2].name, SLICE("date")), "of its receipt: it had none");
    cr_assert_eq(answer.object->tag_count, 1);
    cr_assert_geq(lifetimes.age_ms, 7000, "but it counts");
    cr_assert_leq(lifetimes.fresh_ms, 60000 - 7000);
    cr_assert_eq(memcmp(&answer.object->key, &plan.key, sizeof(plan.key)), 0);
    stop();
}

Test(load_answer, the_time_the_body_took_is_no_time_it_is_fresh_for)
{
    struct lifetimes lifetimes;

    start(ROUTE_PATIENT);
    cr_assert_eq(judge(200, 0, NULL, 0), ANSWER_SHARED);
    stream_keep(stream, 1024);
    stream->head_at.ms -= 20000; /* as if the head had come twenty seconds ago */
    fetch_end(0, FAULT_NONE);
    cr_assert(load_answer_finish(&answer, stream, NULL, &plan, 0, &lifetimes));
    cr_assert_leq(lifetimes.fresh_ms, 40000);
    cr_assert_leq(lifetimes.stale_ms, 100000);
    cr_assert_geq(lifetimes.age_ms, 20000);
    stop();
}

Test(load_answer, what_outlived_itself_while_it_came_is_not_kept)
{
    struct lifetimes lifetimes;

    start(ROUTE_BYPASSING); /* no stale windows */
    cr_assert_eq(judge(200, 0, NULL, 0), ANSWER_SHARED);
    stream_keep(stream, 1024);
    stream->head_at.ms -= 61000;
    fetch_end(0, FAULT_NONE);
    cr_assert(!load_answer_finish(&answer, stream, NULL, &plan, 0, &lifetimes));
    cr_assert_null(answer.object);
    stop();
}
