/* Inbox: what one worker's loop is to be told: loads that ended while somebody may wait for them, and that something was corrected by hand.
 *
 * One letter takes along whatever is added before it is delivered. Any thread may add, as long as the loop lives. Private to the memory
 * store.
 */
#ifndef WEIR_STORE_MEMORY_INBOX_H
#define WEIR_STORE_MEMORY_INBOX_H

#include "loop.h"
#include "store.h"

struct inbox;

struct inbox *inbox_new(struct store *owner, struct loop *loop);
/* The owner is going, and nobody can add any more. A letter that is under way frees the inbox when it is delivered. */
void inbox_close(struct inbox *inbox);
void inbox_add_wake(struct inbox *inbox, const struct key32 *key);
void inbox_add_correction(struct inbox *inbox);

#endif
