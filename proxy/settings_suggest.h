/* Settings suggest: which of the known words was probably meant? */
#ifndef WEIR_SETTINGS_SUGGEST_H
#define WEIR_SETTINGS_SUGGEST_H

#include <stddef.h>

/* The nearest by edits (insert, delete, replace, swap of neighbours; case does not count), or NULL where none
 * is near: at most a third of the word may differ. Words above 64 bytes have no neighbours. */
const char *nearest_word(const char *word, const char *const *known, size_t count);

#endif
