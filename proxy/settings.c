/* Settings: see settings.h. */
#include "settings.h"
#include "check.h"
#include "memory.h"
#include "settings_file.h"
#include "settings_sections.h"

#include <stdlib.h>
#include <string.h>

/* One allocation of a configuration; all are freed together. */
struct settings_block {
    struct settings_block *next;
    max_align_t bytes[];
};

void *draft_alloc(struct draft *draft, size_t bytes)
{
    struct settings_block *block = must_alloc(sizeof *block + bytes);

    block->next = draft->settings->blocks;
    draft->settings->blocks = block;
    return block->bytes;
}

char *draft_copy(struct draft *draft, const char *text)
{
    size_t len = strlen(text);

    return memcpy(draft_alloc(draft, len + 1), text, len + 1);
}

char *draft_copy_lower(struct draft *draft, const char *text)
{
    char *copy = draft_copy(draft, text);

    for (char *c = copy; *c != '\0'; c++)
        *c = ascii_lower(*c);
    return copy;
}

static struct settings *settings_new(const char *path)
{
    struct settings *settings = must_alloc(sizeof *settings);
    struct draft draft = {.settings = settings};

    atomic_init(&settings->refs, 1);
    settings->path = draft_copy(&draft, path);
    return settings;
}

struct settings *settings_hold(struct settings *settings)
{
    atomic_fetch_add_explicit(&settings->refs, 1, memory_order_relaxed);
    return settings;
}

static void forget_secret(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
}

void settings_release(struct settings **taken)
{
    struct settings *settings = *taken;
    int refs;

    *taken = NULL;
    if (settings == NULL)
        return;
    refs = atomic_fetch_sub_explicit(&settings->refs, 1, memory_order_acq_rel);
    CHECK(refs >= 1);
    if (refs > 1)
        return;
    forget_secret(settings->admin_token);
    forget_secret(settings->store.password);
    for (struct settings_block *block = settings->blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    free(settings);
}

struct settings *settings_parse(const char *name, const char *text, size_t len, FILE *errors)
{
    struct complaints complaints = {.file = name};
    struct settings *settings = settings_new(name);
    struct draft draft = {.settings = settings, .complaints = &complaints};
    struct node *root = NULL;

    if (len > MAX_CONFIG_BYTES)
        complain_at(&complaints, 0, 0, "the file is too large; at most 1 MiB is allowed");
    else
        root = node_read(text, len, &complaints);
    if (root != NULL)
        settings_build(&draft, root);
    node_free(root);
    if (complaints.count > 0) {
        complaints_write(&complaints, errors);
        settings_release(&settings);
    }
    complaints_free(&complaints);
    return settings;
}

struct settings *settings_load(const char *path, FILE *errors)
{
    const char *problem;
    struct settings *settings;
    size_t len;
    char *text = file_read(path, MAX_CONFIG_BYTES, &len, &problem);

    if (text == NULL) {
        fprintf(errors, "%s: cannot be read: %s\n", path, problem);
        return NULL;
    }
    settings = settings_parse(path, text, len, errors);
    free(text);
    return settings;
}
