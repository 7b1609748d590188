/* Any bytes from Redis: the reader bounds them, and what it hands out is read as every kind of answer and
 * message. */
#include "redis_reader.h"
#include "store_redis_answer.h"

static void read_messages(struct slice text)
{
    struct invalidation_message message;
    struct tag_stamp stamp;
    struct slice stamps;
    unsigned char principal[PRINCIPAL_BYTES];
    struct key32 key;

    message_read_key(text, &key);
    message_read_plan_key(text, SLICE("weir:p:{"), principal);
    if (!message_read_invalidation(text, &message))
        return;
    for (stamps = message.stamps; message_next_stamp(&stamps, &stamp);)
        ;
}

static void read_answers(const struct redis_reply *reply)
{
    static const struct limit_charge charges[3];
    const struct admit_tuple tuples[2] = {{charges, 2, 3}, {charges, 1, 1}};
    struct limit_state states[3];
    struct admit_answer answers[2] = {{0, states}, {0, states + 2}};
    struct lookup_reply lookup;
    enum fill_result filled;
    bool held, was_held[2];
    struct plan_answer plan;
    int64_t epoch;

    answer_read_plan(reply, &plan);
    answer_read_admit(reply, tuples, 2, answers);
    answer_read_settle(reply, was_held, 2);
    answer_read_lookup(reply, &lookup);
    answer_read_fill(reply, &filled);
    answer_read_held(reply, &held);
    answer_read_epoch(reply, &epoch);
    if (reply->kind == REDIS_TEXT || reply->kind == REDIS_ERROR)
        read_messages(reply->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct redis_reader *reader = redis_reader_new(4096);
    struct redis_reply *reply;
    struct store_news news;

    if (redis_reader_feed(reader, slice_of((const char *)data, size))) {
        while (redis_reader_next(reader, &reply) && reply != NULL) {
            read_answers(reply);
            if (answer_read_news(reply, &news))
                read_answers(news.result);
            redis_reply_free(reply);
        }
    }
    redis_reader_free(reader);
    return 0;
}
