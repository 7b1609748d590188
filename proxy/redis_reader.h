/* Redis reader: bytes from Redis in, whole replies out, and never more memory than was agreed. */
#ifndef WEIR_REDIS_READER_H
#define WEIR_REDIS_READER_H

#include "redis_words.h"

struct redis_reader;

enum { REDIS_MAX_ITEMS = 65536 /* of one list */ };

struct redis_reader *redis_reader_new(size_t max_reply_bytes);
void redis_reader_free(struct redis_reader *reader);

/* False: the bytes are no RESP, or break a bound; the reader is of no more use and says why. */
bool redis_reader_feed(struct redis_reader *reader, struct slice bytes);
/* True: `*reply` is the next whole one, the caller's to free, or NULL if there is none yet. False: as above.
 */
bool redis_reader_next(struct redis_reader *reader, struct redis_reply **reply);
const char *redis_reader_complaint(const struct redis_reader *reader);

#endif
