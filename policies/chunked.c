/* Chunked: see chunked.h. A state per place in the grammar; bytes of the body are never looked at. */
#include "chunked.h"

#include "http_char.h"

void chunked_init(struct chunked *body)
{
    *body = (struct chunked){.state = CHUNK_SIZE_FIRST};
}

static enum chunked_state take_digit(struct chunked *body, char c)
{
    int digit = hex_value(c);

    if (digit < 0 || ++body->digits > CHUNKED_MAX_DIGITS)
        return CHUNK_FAILED;
    body->left = body->left * 16 + (uint64_t)digit;
    return CHUNK_SIZE;
}

static enum chunked_state take_extension(struct chunked *body, char c)
{
    if (c == '\r')
        return CHUNK_SIZE_LF;
    if (!is_value_char(c) || ++body->extension_bytes > CHUNKED_MAX_EXTENSION_BYTES)
        return CHUNK_FAILED;
    return CHUNK_EXTENSION;
}

static enum chunked_state take_trailer(struct chunked *body, char c)
{
    if (++body->trailer_bytes > CHUNKED_MAX_TRAILER_BYTES)
        return CHUNK_FAILED;
    if (body->state == CHUNK_TRAILER_VALUE)
        return c == '\r' ? CHUNK_TRAILER_LF : is_value_char(c) ? CHUNK_TRAILER_VALUE : CHUNK_FAILED;
    if (body->state == CHUNK_TRAILER_START && c == '\r')
        return CHUNK_END_LF;
    if (body->state == CHUNK_TRAILER_NAME && c == ':')
        return CHUNK_TRAILER_VALUE;
    return is_token_char(c) ? CHUNK_TRAILER_NAME : CHUNK_FAILED;
}

/* Where one byte of the framing leads. */
static enum chunked_state take(struct chunked *body, char c)
{
    switch (body->state) {
    case CHUNK_SIZE_FIRST:
        body->left = 0;
        body->digits = 0;
        return take_digit(body, c);
    case CHUNK_SIZE:
        if (c == ';')
            return CHUNK_EXTENSION;
        return c == '\r' ? CHUNK_SIZE_LF : take_digit(body, c);
    case CHUNK_EXTENSION: return take_extension(body, c);
    case CHUNK_SIZE_LF:
        if (c != '\n')
            return CHUNK_FAILED;
        return body->left == 0 ? CHUNK_TRAILER_START : CHUNK_DATA;
    case CHUNK_DATA_CR: return c == '\r' ? CHUNK_DATA_LF : CHUNK_FAILED;
    case CHUNK_DATA_LF: return c == '\n' ? CHUNK_SIZE_FIRST : CHUNK_FAILED;
    case CHUNK_TRAILER_START:
    case CHUNK_TRAILER_NAME:
    case CHUNK_TRAILER_VALUE: return take_trailer(body, c);
    case CHUNK_TRAILER_LF: return c == '\n' ? CHUNK_TRAILER_START : CHUNK_FAILED;
    case CHUNK_END_LF: return c == '\n' ? CHUNK_OVER : CHUNK_FAILED;
    case CHUNK_DATA:
    case CHUNK_OVER:
    case CHUNK_FAILED: break; /* these take no byte of the framing */
    }
    return CHUNK_FAILED;
}

static void skip(struct slice *input, size_t bytes)
{
    input->base += bytes;
    input->len -= bytes;
}

enum chunked_step chunked_next(struct chunked *body, struct slice *input, struct slice *data_out)
{
    for (;;) {
        if (body->state == CHUNK_OVER)
            return CHUNKED_END;
        if (body->state == CHUNK_FAILED)
            return CHUNKED_BROKEN;
        if (input->len == 0)
            return CHUNKED_HUNGRY;
        if (body->state == CHUNK_DATA) {
            *data_out = slice_of(input->base, body->left < input->len ? (size_t)body->left : input->len);
            skip(input, data_out->len);
            body->left -= data_out->len;
            if (body->left == 0)
                body->state = CHUNK_DATA_CR;
            return CHUNKED_DATA;
        }
        body->state = take(body, input->base[0]);
        skip(input, 1);
    }
}
