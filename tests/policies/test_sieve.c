#include "sieve.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

enum { NODES = 64 };

/* The model: an array from the oldest to the newest, an index for the hand, and the algorithm told as its
 * paper tells it. */
struct model {
    int ids[NODES];
    bool visited[NODES]; /* by id */
    int count, hand;     /* hand: position of the next one to look at */
};

static int model_place(const struct model *model, int id)
{
    for (int i = 0; i < model->count; i++)
        if (model->ids[i] == id)
            return i;
    return -1;
}

static void model_insert(struct model *model, int id)
{
    model->ids[model->count++] = id;
    model->visited[id] = false;
}

static void model_remove(struct model *model, int id)
{
    int place = model_place(model, id);

    for (int i = place; i + 1 < model->count; i++)
        model->ids[i] = model->ids[i + 1];
    model->count--;
    if (place < model->hand)
        model->hand--;
    if (model->hand >= model->count) /* the hand stood at the newest, which left */
        model->hand = 0;
}

static int model_victim(struct model *model)
{
    if (model->count == 0)
        return -1;
    for (;; model->hand = (model->hand + 1) % model->count) {
        int id = model->ids[model->hand];
        if (!model->visited[id])
            return id;
        model->visited[id] = false;
    }
}

static uint32_t roll(uint32_t *state) /* xorshift: the same history in every run */
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void expect_same_queue(const struct sieve *sieve, const struct model *model,
                              const struct sieve_node *nodes)
{
    const struct sieve_node *node = sieve->oldest, *before = NULL;

    cr_assert_eq(sieve->count, (size_t)model->count);
    for (int i = 0; i < model->count; i++) {
        cr_assert_eq(node, &nodes[model->ids[i]]);
        cr_assert_eq(node->older, before);
        before = node;
        node = node->newer;
    }
    cr_assert_null(node);
    cr_assert_eq(sieve->newest, before);
}

Test(sieve, agrees_with_the_plain_model_over_any_history)
{
    for (uint32_t seed = 1; seed <= 40; seed++) {
        struct sieve sieve = {0};
        struct sieve_node nodes[NODES] = {0};
        struct model model = {0};
        uint32_t state = seed * 2654435761U;

        for (int step = 0; step < 20000; step++) {
            int id = (int)(roll(&state) % NODES);
            bool is_in = nodes[id].is_linked;
            cr_assert_eq(is_in, model_place(&model, id) >= 0);
            uint32_t action = roll(&state) % 10;
            if (action < 4 && !is_in) {
                /* while the hand stands past the newest it means the oldest, in both: an insertion does not
                 * move it */
                sieve_insert(&sieve, &nodes[id]);
                model_insert(&model, id);
            } else if (action < 7 && is_in) {
                sieve_touch(&nodes[id]);
                model.visited[id] = true;
            } else if (action == 7 && is_in) {
                sieve_remove(&sieve, &nodes[id]);
                model_remove(&model, id);
            } else if (action > 7) {
                struct sieve_node *victim = sieve_victim(&sieve);
                int want = model_victim(&model);
                cr_assert_eq(victim == NULL ? -1 : (int)(victim - nodes), want, "seed %u step %d", seed,
                             step);
                if (victim != NULL && action == 9) {
                    sieve_remove(&sieve, victim);
                    model_remove(&model, want);
                }
            }
            if (step % 97 == 0)
                expect_same_queue(&sieve, &model, nodes);
        }
        expect_same_queue(&sieve, &model, nodes);
    }
}

Test(sieve, an_empty_one_has_no_victim)
{
    struct sieve sieve = {0};
    struct sieve_node node = {0};

    cr_assert_null(sieve_victim(&sieve));
    sieve_insert(&sieve, &node);
    cr_assert_eq(sieve_victim(&sieve), &node);
    sieve_remove(&sieve, &node);
    cr_assert_null(sieve_victim(&sieve));
    cr_assert_eq(sieve.count, 0);
    sieve_insert(&sieve, &node); /* what left may come again */
    cr_assert_eq(sieve_victim(&sieve), &node);
}

Test(sieve, a_used_one_survives_one_round_and_a_stream_of_strangers_does_not_push_it_out)
{
    struct sieve sieve = {0};
    struct sieve_node popular = {0}, strangers[NODES] = {0};

    sieve_insert(&sieve, &popular);
    for (int i = 0; i < NODES; i++) {
        sieve_touch(&popular);
        sieve_insert(&sieve, &strangers[i]);
        if (sieve.count > 4) {
            struct sieve_node *victim = sieve_victim(&sieve);
            cr_assert_neq(victim, &popular);
            sieve_remove(&sieve, victim);
        }
    }
    cr_assert(popular.is_linked);
}

Test(sieve, with_all_of_them_used_the_oldest_goes_after_one_round)
{
    struct sieve sieve = {0};
    struct sieve_node nodes[NODES] = {0};

    for (int i = 0; i < NODES; i++) {
        sieve_insert(&sieve, &nodes[i]);
        sieve_touch(&nodes[i]);
    }
    cr_assert_eq(sieve_victim(&sieve), &nodes[0]);
    for (int i = 0; i < NODES; i++)
        cr_assert_not(nodes[i].is_visited);
    cr_assert_eq(sieve_victim(&sieve), &nodes[0], "asked again, the same");
}

Test(sieve, the_hand_does_not_follow_one_that_leaves_under_it)
{
    struct sieve sieve = {0};
    struct sieve_node nodes[3] = {0};

    for (int i = 0; i < 3; i++)
        sieve_insert(&sieve, &nodes[i]);
    sieve_touch(&nodes[0]);
    sieve_touch(&nodes[1]);
    cr_assert_eq(sieve_victim(&sieve), &nodes[2]);
    sieve_remove(&sieve, &nodes[2]); /* the newest, where the hand stands: it goes on at the oldest */
    cr_assert_eq(sieve_victim(&sieve), &nodes[0]);
}
