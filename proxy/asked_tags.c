/* Asked tags: see asked_tags.h. */
#include "asked_tags.h"

#include "json_body.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 16 << 10 };

struct piece { /* tags lie in pieces that never move */
    struct piece *next;
    size_t used, room;
    char bytes[];
};

struct asked_tags {
    struct template *templates; /* their texts behind them, in the same allocation */
    size_t count, soft_count;
    struct slice tags[ASKED_TAGS_MAX];
    struct slice texts[ASKED_TAGS_MAX]; /* what stands at the pointer at hand */
    struct piece *pieces;
};

struct asked_tags *asked_tags_new(const struct template *templates, size_t count, size_t soft_count)
{
    struct asked_tags *asked = must_alloc(sizeof(*asked));
    size_t bytes = count * sizeof(*templates);
    char *at;

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < templates[i].part_count; j++)
            bytes += templates[i].parts[j].text.len;
    asked->templates = must_alloc(bytes + 1);
    asked->count = count;
    asked->soft_count = soft_count;
    memcpy(asked->templates, templates, count * sizeof(*templates));
    at = (char *)(asked->templates + count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < templates[i].part_count; j++) {
            struct slice *text = &asked->templates[i].parts[j].text;

            if (text->len > 0)
                memcpy(at, text->base, text->len);
            *text = slice_of(at, text->len);
            at += text->len;
        }
    return asked;
}

void asked_tags_free(struct asked_tags **taken)
{
    struct asked_tags *asked = *taken;

    *taken = NULL;
    if (asked == NULL)
        return;
    while (asked->pieces != NULL) {
        struct piece *next = asked->pieces->next;

        free(asked->pieces);
        asked->pieces = next;
    }
    free(asked->templates);
    free(asked);
}

/* ---- reading ---- */

static char *room_for(struct asked_tags *asked, size_t len)
{
    struct piece *piece = asked->pieces;
    char *at;

    if (piece == NULL || piece->room - piece->used < len) {
        size_t room = len > PIECE_BYTES ? len : PIECE_BYTES;

        piece = must_alloc(sizeof(*piece) + room);
        piece->room = room;
        piece->next = asked->pieces;
        asked->pieces = piece;
    }
    at = piece->bytes + piece->used;
    piece->used += len;
    return at;
}

static bool add_tag(struct asked_tags *asked, const struct template *whole, struct named_tags *out)
{
    size_t len = tag_expand(whole, NULL, NULL, 0, slice_of(NULL, 0), NULL, 0);
    char *text;

    if (len == 0)
        return true;
    if (out->count == ASKED_TAGS_MAX)
        return false;
    text = room_for(asked, len);
    tag_expand(whole, NULL, NULL, 0, slice_of(NULL, 0), text, len);
    asked->tags[out->count++] = slice_of(text, len);
    return true;
}

/* The part that the answer is asked for; the next one from `from` on. */
static size_t next_asked(const struct template *template, size_t from)
{
    while (from < template->part_count && template->parts[from].kind != PART_JSON)
        from++;
    return from;
}

/* Several pointers in one template: only one of them may stand for more than one value, or nobody could say which of
 * the one belong to which of the other. */
static bool expand(struct asked_tags *asked, const struct json_body *body, struct template template,
                   struct named_tags *out)
{
    size_t many = SIZE_MAX, many_count = 1;
    char pointer[TEMPLATE_MAX_POINTER + 1];

    for (size_t i = next_asked(&template, 0); i < template.part_count; i = next_asked(&template, i + 1)) {
        struct slice text = template.parts[i].text;
        struct slice *texts = many == SIZE_MAX ? asked->texts : asked->texts + many_count;
        size_t room = ASKED_TAGS_MAX - (size_t)(texts - asked->texts), count;

        memcpy(pointer, text.base, text.len);
        pointer[text.len] = '\0';
        count = json_body_texts(body, pointer, texts, room);
        if (count == SIZE_MAX)
            return false;
        if (count == 0)
            return true;
        if (count > 1 && many != SIZE_MAX)
            return false;
        template.parts[i] = (struct template_part){PART_GIVEN, texts[0]};
        if (count > 1) {
            many = i;
            many_count = count;
            if (texts != asked->texts)
                memmove(asked->texts, texts, count * sizeof(*texts));
        }
    }
    for (size_t i = 0; i < many_count; i++) {
        if (many != SIZE_MAX)
            template.parts[many].text = asked->texts[i];
        if (!add_tag(asked, &template, out))
            return false;
    }
    return true;
}

struct named_tags asked_tags_read(struct asked_tags *asked, struct slice text)
{
    struct named_tags named = {.tags = asked->tags, .is_incomplete = true};
    struct json_body *body = json_body_read(text);

    if (body == NULL)
        return named;
    named.is_incomplete = false;
    for (size_t i = 0; i < asked->count; i++) {
        if (!expand(asked, body, asked->templates[i], &named))
            named.is_incomplete = true;
        if (i < asked->soft_count)
            named.soft_count = named.count;
    }
    json_body_free(&body);
    return named;
}
