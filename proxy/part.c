/* Part: see part.h. */
#include "part.h"

#include "digest.h"

static struct key32 key_of(const struct key32 *whole, struct slice range)
{
    struct slice parts[] = {slice_of((const char *)whole->bytes, sizeof(whole->bytes)), SLICE("part\n"),
                            range};
    struct key32 out;

    digest_sha256(parts, sizeof(parts) / sizeof(parts[0]), out.bytes);
    return out;
}

void part_plan(struct load_plan *plan, struct slice range, struct header *room)
{
    size_t count = plan->request.header_count;

    if (count > 0)
        memcpy(room, plan->request.headers, count * sizeof(*room));
    room[count] = (struct header){SLICE("range"), range};
    plan->request.headers = room;
    plan->request.header_count = count + 1;
    plan->whole_key = plan->key;
    plan->key = key_of(&plan->whole_key, range);
    plan->is_part = true;
}

void part_plan_whole(struct load_plan *plan)
{
    plan->key = plan->whole_key;
    plan->is_part = false;
}

bool part_of_fields(const struct header *headers, size_t count, struct byte_range *held, int64_t *whole)
{
    bool is_there = false;

    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(headers[i].name, SLICE("content-range")))
            continue;
        if (is_there || !content_range_read(headers[i].value, held, whole))
            return false;
        is_there = true;
    }
    return is_there;
}

bool part_gives(const struct object *part, struct slice range, struct byte_range *given, int64_t *skip_bytes,
                int64_t *whole)
{
    struct byte_range held;

    if (part->status != 206 || !part_of_fields(part->headers, part->header_count, &held, whole) ||
        *whole < 0 || range_read(range, *whole, given) != RANGE_PART || given->first < held.first ||
        given->last > held.last)
        return false;
    *skip_bytes = given->first - held.first;
    if (*skip_bytes >= part->body_bytes)
        return false;
    if (given->last - held.first >= part->body_bytes)
        given->last = held.first + part->body_bytes - 1;
    return true;
}

struct object *part_find_near(struct near *near, const struct key32 *whole, struct slice range,
                              struct mono_ms now)
{
    struct key32 key = key_of(whole, range);

    return near_find(near, &key, now);
}

void part_put_near(struct near *near, const struct key32 *whole, const struct object *part)
{
    struct key32 key = key_of(whole, SLICE(""));
    struct object *latest = object_rekeyed(part, &key);

    near_put(near, latest);
    object_release(&latest);
}
