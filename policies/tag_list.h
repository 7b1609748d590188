/* Tag list: the tags that a response names in a field such as Surrogate-Key or Cache-Tag: separated by blanks
 * or commas. */
#ifndef WEIR_TAG_LIST_H
#define WEIR_TAG_LIST_H

#include "slice.h"

/* Takes the next tag off the front of *rest; false when there is none left. */
bool tag_list_next(struct slice *rest, struct slice *tag_out);

#endif
