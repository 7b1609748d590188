/* Distinct: within a few of the truth from nothing to millions, and the same however the crowd came. */
#include "distinct.h"

#include <criterion/criterion.h>

static uint64_t state;

static uint64_t next_random(void)
{
    uint64_t word = state += UINT64_C(0x9E3779B97F4A7C15);

    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static void see(uint8_t ranks[DISTINCT_PLACES], uint64_t hash)
{
    uint8_t rank;
    size_t place = distinct_place(hash, &rank);

    cr_assert_lt(place, (size_t)DISTINCT_PLACES);
    cr_assert(rank >= 1 && rank <= 55);
    if (rank > ranks[place])
        ranks[place] = rank;
}

Test(distinct, the_estimate_is_near_the_truth_at_every_size)
{
    static const int64_t sizes[] = {0, 1, 2, 10, 100, 500, 1000, 2500, 3000, 5000, 20000, 100000, 1000000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        double worst = 0, sum = 0;
        enum { ROUNDS = 8 };

        for (int round = 0; round < ROUNDS; round++) {
            uint8_t ranks[DISTINCT_PLACES] = {0};
            double error;

            for (int64_t n = 0; n < sizes[i]; n++)
                see(ranks, next_random());
            error = (double)(distinct_estimate(ranks) - sizes[i]) / (double)(sizes[i] > 0 ? sizes[i] : 1);
            sum += error;
            worst = error > worst ? error : -error > worst ? -error : worst;
        }
        cr_expect_lt(worst, 0.14, "%lld: %.3f is beyond four standard errors", (long long)sizes[i], worst);
        cr_expect(sum / ROUNDS < 0.06 && sum / ROUNDS > -0.06, "%lld: %.3f on average", (long long)sizes[i],
                  sum / ROUNDS);
        cr_expect(sizes[i] > 10 || worst == 0, "few are counted exactly: %lld", (long long)sizes[i]);
    }
}

Test(distinct, who_is_seen_again_is_not_counted_again_and_crowds_add_up_place_by_place)
{
    uint8_t once[DISTINCT_PLACES] = {0}, often[DISTINCT_PLACES] = {0}, half[DISTINCT_PLACES] = {0};

    for (int round = 0; round < 3; round++) {
        state = 7;
        for (int n = 0; n < 10000; n++) {
            uint64_t hash = next_random();

            see(often, hash);
            if (round == 0)
                see(n % 2 == 0 ? once : half, hash);
        }
    }
    for (size_t i = 0; i < DISTINCT_PLACES; i++)
        once[i] = half[i] > once[i] ? half[i] : once[i];
    cr_assert_arr_eq(once, often, sizeof(once));
}

Test(distinct, bytes_that_no_thing_leaves_are_harmless)
{
    uint8_t ranks[DISTINCT_PLACES];

    memset(ranks, 255, sizeof(ranks));
    cr_assert_gt(distinct_estimate(ranks), 0);
    cr_assert_eq(distinct_place(0, &ranks[0]), 0u);
    cr_assert_eq(ranks[0], 55);
}
