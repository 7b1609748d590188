/* Planner: see planner.h. */
#include "planner.h"

#include "check.h"
#include "clock.h"
#include "log.h"
#include "loop.h"
#include "memory.h"

#include <stdlib.h>

enum { BUCKETS = 256, WARN_AGAIN_MS = 10000 };

/* About one caller, to the store. */
struct plan_question {
    struct planner *planner;
    struct link link;        /* among the planner's questions */
    struct link bucket_link; /* while others of this turn may join */
    struct link wishes;
    unsigned char caller[PRINCIPAL_BYTES];
    uint64_t mark;
    int64_t asked_us;
    struct store_call *call;
};

struct planner {
    struct loop *loop;
    struct store *store;
    struct link gathering; /* questions of this turn */
    struct link asked;
    struct link buckets[BUCKETS]; /* of the questions of this turn */
    struct task flush;
    struct mono_ms warn_again_at;
};

/* ---- what a plan means for a charge ---- */

static void warn_of_unknown_plan(struct planner *planner, const struct limit_rule *rule)
{
    struct mono_ms now = loop_now(planner->loop);

    if (now.ms < planner->warn_again_at.ms)
        return;
    planner->warn_again_at = mono_after(now, WARN_AGAIN_MS);
    log_warn(
        "limit %s: a caller has a plan that this limit does not have, and is counted by the default one; "
        "weir_unknown_plans_total counts such requests",
        rule->name);
}

static void apply(struct planner *planner, struct plan_wish *wish, const struct plan_name *name)
{
    struct limit_charge *charge = wish->charge;
    const struct limit_plan *plan = limit_plan_named(charge->rule, plan_name_text(name));

    charge->terms = plan != NULL ? &plan->terms : &charge->rule->terms;
    memcpy(charge->principal,
           name->len == 0 && charge->rule->unknown == UNKNOWN_BY_IP ? wish->address : wish->own,
           sizeof(charge->principal));
    if (name->len > 0 && plan == NULL) {
        site_count_unknown_plan(wish->request->site, charge->rule);
        warn_of_unknown_plan(planner, charge->rule);
    }
}

/* ---- questions ---- */

static struct link *bucket_of(struct planner *planner, const unsigned char caller[PRINCIPAL_BYTES])
{
    return &planner->buckets[caller[0] % BUCKETS];
}

static struct plan_question *question_about(struct planner *planner,
                                            const unsigned char caller[PRINCIPAL_BYTES])
{
    struct link *bucket = bucket_of(planner, caller);
    struct plan_question *question;

    for (struct link *at = bucket->next; at != bucket; at = at->next) {
        question = LIST_OWNER(at, struct plan_question, bucket_link);
        if (memcmp(question->caller, caller, sizeof(question->caller)) == 0)
            return question;
    }
    question = must_alloc(sizeof(*question));
    question->planner = planner;
    memcpy(question->caller, caller, sizeof(question->caller));
    list_init(&question->link);
    list_init(&question->bucket_link);
    list_init(&question->wishes);
    list_append(&planner->gathering, &question->link);
    list_append(bucket, &question->bucket_link);
    return question;
}

static void question_free(struct plan_question *question)
{
    store_cancel(&question->call);
    list_leave(&question->link);
    list_leave(&question->bucket_link);
    free(question);
}

static struct plan_name heard_last(const struct plan_question *question)
{
    struct plan_name name = {0};

    known_plans_last(question->planner->store->plans, question->caller, &name);
    return name;
}

static void learn(const struct plan_question *question, const struct plan_answer *answer)
{
    int64_t until_us = answer->lasts_ms < 0 || answer->lasts_ms > (INT64_MAX - question->asked_us) / 1000
                           ? INT64_MAX
                           : question->asked_us + answer->lasts_ms * 1000;

    known_plans_learn(question->planner->store->plans, question->caller, question->mark, &answer->plan,
                      until_us);
}

static void on_answer(void *arg, enum fault fault, const struct plan_answer *answer)
{
    struct plan_question *question = arg;
    struct plan_name name = fault == FAULT_NONE ? answer->plan : heard_last(question);

    question->call = NULL;
    if (fault == FAULT_NONE)
        learn(question, answer);
    while (!list_is_empty(&question->wishes)) {
        struct plan_wish *wish = LIST_OWNER(question->wishes.next, struct plan_wish, link);
        struct plan_request *request = wish->request;

        list_leave(&wish->link);
        apply(question->planner, wish, &name);
        if (--request->unanswered == 0)
            request->settled(request->arg); /* may end the request, and others that wait here */
    }
    question_free(question);
}

static void flush(void *arg)
{
    struct planner *planner = arg;

    while (!list_is_empty(&planner->gathering)) {
        struct plan_question *question = LIST_OWNER(planner->gathering.next, struct plan_question, link);

        list_leave(&question->link);
        list_leave(&question->bucket_link);
        list_append(&planner->asked, &question->link);
        question->mark = known_plans_mark(planner->store->plans, question->caller);
        question->asked_us = clock_mono_us();
        question->call = store_read_plan(planner->store, question->caller, on_answer, question);
    }
}

/* ---- public ---- */

bool planner_ask(struct planner *planner, struct plan_request *request)
{
    int64_t now_us = request->wish_count > 0 ? clock_mono_us() : 0;
    struct plan_name name;

    request->unanswered = 0;
    for (size_t i = 0; i < request->wish_count; i++) {
        struct plan_wish *wish = &request->wishes[i];

        wish->request = request;
        list_init(&wish->link);
        if (known_plans_find(planner->store->plans, wish->caller, now_us, &name)) {
            apply(planner, wish, &name);
            continue;
        }
        list_append(&question_about(planner, wish->caller)->wishes, &wish->link);
        request->unanswered++;
    }
    if (request->unanswered > 0)
        loop_defer(planner->loop, &planner->flush);
    return request->unanswered == 0;
}

void planner_leave(struct plan_request *request)
{
    for (size_t i = 0; i < request->wish_count; i++)
        if (request->wishes[i].link.next != NULL)
            list_leave(&request->wishes[i].link);
}

struct planner *planner_new(struct loop *loop, struct store *store)
{
    struct planner *planner = must_alloc(sizeof(*planner));

    planner->loop = loop;
    planner->store = store;
    list_init(&planner->gathering);
    list_init(&planner->asked);
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&planner->buckets[i]);
    task_init(&planner->flush, LOOP_DECIDE, flush, planner);
    return planner;
}

void planner_free(struct planner *planner)
{
    task_cancel(planner->loop, &planner->flush);
    list_move_all(&planner->asked, &planner->gathering);
    while (!list_is_empty(&planner->asked)) {
        struct plan_question *question = LIST_OWNER(planner->asked.next, struct plan_question, link);

        CHECK(list_is_empty(&question->wishes)); /* who asked has left */
        question_free(question);
    }
    free(planner);
}
