/* Command cache: how full is the cache of the process that serves this configuration, and how well does it do?
 *
 *   weir cache -c FILE stat
 *
 * The process is asked by its admin port, with a Redis too: the figures are its own.
 */
#include "command.h"
#include "errand.h"
#include "fields.h"
#include "json_body.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t figure(const struct json_body *stats, const char *map, const char *name)
{
    char pointer[80];
    int64_t number = 0;

    snprintf(pointer, sizeof(pointer), "/%s/%s", map, name);
    return json_body_look(stats, pointer, &number) == JSON_WHOLE ? number : 0;
}

static void tell_results(const struct json_body *stats, FILE *out)
{
    int64_t results[CACHE_BYPASS + 1], without, all;

    fputs("answers      ", out);
    for (int i = 0; i <= CACHE_BYPASS; i++) {
        const char *name = cache_result_name((enum cache_result)i);

        results[i] = figure(stats, "cache/results", name);
        fprintf(out, "%s %s %" PRId64, i == 0 ? "" : ",", name, results[i]);
    }
    without = results[CACHE_HIT] + results[CACHE_STALE] + results[CACHE_WAIT];
    all = without + results[CACHE_MISS] + results[CACHE_REVALIDATED];
    if (all > 0)
        fprintf(out, "\nhit ratio     %.1f %%", 100.0 * (double)without / (double)all);
    fputc('\n', out);
}

static void tell_invalidations(const struct json_body *stats, FILE *out)
{
    static const char *const names[] = {"recorded", "deferred", "widened", "unnamed", "kept"};

    fputs("invalidations", out);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        fprintf(out, "%s %s %" PRId64, i == 0 ? "" : ",", names[i], figure(stats, "invalidations", names[i]));
    fputc('\n', out);
}

static int tell(struct errand *errand, const struct errand_answer *answer, FILE *out)
{
    struct json_body *stats = json_body_read(slice_of(answer->body, answer->len));

    if (stats == NULL) {
        errand_complain(errand, "the running process gives an answer that makes no sense");
        return EXIT_FAILED;
    }
    fprintf(out, "objects       %" PRId64 ", %" PRId64 " of %" PRId64 " bytes\n",
            figure(stats, "cache", "objects"), figure(stats, "cache", "bytes"),
            figure(stats, "cache", "budget_bytes"));
    fprintf(out, "dropped       %" PRId64 " for space, %" PRId64 " invalidated\n",
            figure(stats, "cache", "evicted"), figure(stats, "cache", "invalidated"));
    tell_results(stats, out);
    tell_invalidations(stats, out);
    json_body_free(&stats);
    return EXIT_DONE;
}

static int ask(struct errand *errand, FILE *out)
{
    struct errand_answer answer;
    int code;

    if (!errand_ask_admin(errand, SLICE("GET"), SLICE("/api/stats"), slice_of(NULL, 0), &answer))
        return EXIT_FAILED;
    code = answer.status == 200 ? tell(errand, &answer, out) : errand_refused(errand, &answer);
    free(answer.body);
    return code;
}

int command_cache(const struct invocation *call)
{
    struct errand errand;
    int code;

    if (strcmp(call->words[0], "stat") != 0)
        return refuse_words(call, "what to do is stat");
    code = errand_load(&errand, call->command, call->config_path, call->err);
    if (code == EXIT_DONE) {
        errand_reach_process(&errand);
        code = ask(&errand, call->out);
    }
    errand_close(&errand);
    return code;
}
