/* docs/configuration.md names every key with the type, range and default that the tables have: neither can
 * change alone. */
#include "settings_limit_cost.h"
#include "settings_limit_plans.h"
#include "settings_sections.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const struct section *const all[] = {
    &section_root,  &section_listen,     &section_admin,           &section_client,      &section_log,
    &section_store, &section_near_cache, &section_upstream,        &section_server,      &section_limit,
    &section_cost,  &section_plan,       &section_route,           &section_invalidates, &section_limit_use,
    &section_cache, &section_cache_key,  &section_cache_key_query, &section_headers};

static void write_shape(const struct setting *row, FILE *out)
{
    switch (row->type) {
    case SETTING_INT: fprintf(out, "number, %s to %s", row->least, row->most); return;
    case SETTING_DURATION: fprintf(out, "duration, %s to %s", row->least, row->most); return;
    case SETTING_SIZE: fprintf(out, "size, %s to %s", row->least, row->most); return;
    case SETTING_BOOL: fprintf(out, "true or false"); return;
    case SETTING_CHOICE:
        for (const struct choice *c = row->choices; c->word != NULL; c++)
            fprintf(out, "%s`%s`%s", c == row->choices ? "" : ", ", c->word, c->is_later ? " (not yet)" : "");
        return;
    case SETTING_SECTION: fprintf(out, "map"); return;
    case SETTING_OWN: fprintf(out, "%s", row->shape); return;
    case SETTING_LATER: fprintf(out, "not yet"); return;
    }
}

/* | `client.max_headers` | number, 1 to 100 | `100` | Sentence. | */
static char *line_of(const struct section *section, const struct setting *row)
{
    char *line;
    size_t len;
    FILE *out = open_memstream(&line, &len);

    fprintf(out, "| `%s%s%s` | ", section->path, section->path[0] == '\0' ? "" : ".", row->key);
    write_shape(row, out);
    if (row->is_required)
        fprintf(out, " | required");
    else if (row->preset != NULL && row->type != SETTING_LATER)
        fprintf(out, " | `%s`", row->preset);
    else
        fprintf(out, " | ");
    fprintf(out, " | %s |\n", row->means);
    fclose(out);
    return line;
}

Test(reference, every_key_stands_in_the_documentation_as_it_is)
{
    FILE *file = fopen("docs/configuration.md", "r");
    char *page = NULL;
    size_t room = 0;

    cr_assert_not_null(file);
    cr_assert_geq(getdelim(&page, &room, '\0', file), 0);
    fclose(file);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < all[i]->count; k++) {
            char *line = line_of(all[i], &all[i]->settings[k]);

            cr_expect_not_null(strstr(page, line), "docs/configuration.md lacks this line:\n%s", line);
            free(line);
        }
    free(page);
}

Test(reference, every_key_has_a_sentence)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < all[i]->count; k++) {
            const char *means = all[i]->settings[k].means;

            cr_expect(means != NULL && means[strlen(means) - 1] == '.', "%s.%s", all[i]->path,
                      all[i]->settings[k].key);
        }
}
