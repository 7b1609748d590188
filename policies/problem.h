/* Problem: the body of our own refusals that no limit decided (RFC 9457). */
#ifndef WEIR_PROBLEM_H
#define WEIR_PROBLEM_H

#include "slice.h"

enum { PROBLEM_ROOM = 512 };

/* `code` is the contract's; `detail` a sentence. Texts are ours: no escaping is done. Returns the length, 0
 * if it does not fit. */
size_t problem_body(int status, const char *code, const char *detail, char *out, size_t room);

#endif
