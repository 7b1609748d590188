/* Compressor: the gzip form of a load's body, made while the body arrives.
 *
 * It reads the stream like any client, at its own pace and a slice in a turn, so that it neither holds up those who ride
 * along nor the loop. What it makes is for the store: the clients of this load get the bytes as they came.
 */
#ifndef WEIR_COMPRESSOR_H
#define WEIR_COMPRESSOR_H

#include "gzip.h"
#include "loop.h"
#include "stream.h"

struct compressor;

/* The stream is kept, and outlives it. `ended` runs once, on a later turn, when the stream has come to its end and all of
 * it is packed, or when that cannot be done; unless it is freed before. */
struct compressor *compressor_new(struct loop *loop, struct stream *stream, void (*ended)(void *arg),
                                  void *arg);
void compressor_free(struct compressor **compressor); /* NULL is fine */
bool compressor_has_ended(const struct compressor *compressor);

/* What it made, or NULL where it failed, or where that saves too little to be worth unpacking it again. */
const struct packer *compressor_result(const struct compressor *compressor);

#endif
