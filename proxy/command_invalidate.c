/* Command invalidate, command purge: from now on nothing that carries these tags, or that is stored of this URL, is
 * served by any node.
 *
 *   weir invalidate -c FILE [--soft] TAG...
 *   weir purge -c FILE [--soft] URL
 *
 * Done means recorded, as for the admin port; a command keeps nothing for later, so what failed is to be tried again.
 */
#include "command.h"
#include "errand.h"
#include "json_text.h"
#include "store.h"
#include "uri_tag.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_TAGS = 64, MOST_TAG_BYTES = 256, JSON_ROOM = 128 << 10 };

struct change {
    const struct invocation *call;
    struct errand errand;
    const char *path; /* of the admin port */
    struct slice json;
    struct slice tags[MOST_TAGS];
    size_t tag_count;
    bool is_done;
    enum fault fault;
    int64_t epoch;
};

static void on_invalidated(void *arg, enum fault fault, int64_t epoch)
{
    struct change *change = arg;

    change->is_done = true;
    change->fault = fault;
    change->epoch = epoch;
}

static int ask_store(struct change *change)
{
    size_t soft_count = change->call->has_flag ? change->tag_count : 0;

    store_invalidate(change->errand.store, change->tags, change->tag_count, soft_count, on_invalidated,
                     change);
    errand_wait(&change->errand, &change->is_done);
    if (change->fault != FAULT_NONE) {
        errand_complain(&change->errand, "it is not known to be recorded, so try again: %s",
                        fault_name(change->fault));
        return EXIT_FAILED;
    }
    fprintf(change->call->out, "done, epoch %" PRId64 "\n", change->epoch);
    return EXIT_DONE;
}

static int ask_process(struct change *change)
{
    struct errand_answer answer;
    int code = EXIT_DONE;

    if (!errand_ask_admin(&change->errand, SLICE("POST"), slice_text(change->path), change->json, &answer))
        return EXIT_FAILED;
    if (answer.status != 200)
        code = errand_refused(&change->errand, &answer);
    else
        fprintf(change->call->out, "done, epoch %" PRId64 "\n", errand_number(&answer, "epoch"));
    free(answer.body);
    return code;
}

static int carry_out(struct change *change)
{
    int code =
        errand_open(&change->errand, change->call->command, change->call->config_path, change->call->err);

    if (code == EXIT_DONE)
        code = change->errand.store != NULL ? ask_store(change) : ask_process(change);
    errand_close(&change->errand);
    return code;
}

static void end_json(struct change *change, struct text *json)
{
    if (change->call->has_flag)
        text_add(json, SLICE(",\"soft\":true"));
    text_add_char(json, '}');
    change->json = text_slice(json);
}

int command_invalidate(const struct invocation *call)
{
    static char room[JSON_ROOM];
    struct change change = {.call = call, .path = "/api/invalidate", .tag_count = call->word_count};
    struct text json = text_in(room, sizeof(room));

    text_add(&json, SLICE("{\"tags\":["));
    for (size_t i = 0; i < call->word_count; i++) {
        change.tags[i] = slice_text(call->words[i]);
        if (change.tags[i].len == 0 || change.tags[i].len > MOST_TAG_BYTES)
            return refuse_words(call, "a tag has between 1 and 256 bytes");
        if (i > 0)
            text_add_char(&json, ',');
        text_add_json(&json, change.tags[i], MOST_TAG_BYTES * 6);
    }
    text_add_char(&json, ']');
    end_json(&change, &json);
    return carry_out(&change);
}

int command_purge(const struct invocation *call)
{
    static char room[JSON_ROOM];
    char tags[URI_TAGS_OF_URL][URI_TAG_BYTES];
    struct slice url = slice_text(call->words[0]);
    struct change change = {.call = call, .path = "/api/purge", .tag_count = URI_TAGS_OF_URL};
    struct text json = text_in(room, sizeof(room));
    const char *problem = uri_tags_of_url(url, tags);

    if (problem != NULL) {
        fprintf(call->err, "weir purge: %s\n", problem);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < URI_TAGS_OF_URL; i++)
        change.tags[i] = slice_of(tags[i], URI_TAG_BYTES);
    text_add(&json, SLICE("{\"url\":"));
    text_add_json(&json, url, url.len);
    end_json(&change, &json);
    return carry_out(&change);
}
