--@fragment
-- epoch.lua: what time is it, and what is the fleet's epoch? Included by every script that touches the tag table.
--
-- The tag table is one ZSET: "!epoch" scored with the epoch, "!floor" with the floor (entries of a lower epoch are invalid), and
-- a stamp for each tag: "t" .. tag with the epoch of its last hard invalidation, "s" .. tag with that of its last soft one.
-- It has no TTL, and may be lost at any time: a lost table, or one
-- that is older than what a node has seen (`seen`; a failover to a stale replica), comes back with epoch = floor above
-- everything that was ever handed out. That costs misses, never a resurrected entry.

-- Microseconds by the server's clock. `injected` is for tests only; production passes ''.
local function clock_us(injected)
    if injected ~= '' then
        return tonumber(injected)
    end
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- A score exactly, whatever it was printed with: 2^53 has 16 digits, and Redis reads and prints scores with 17.
local function score_text(number)
    return string.format('%.0f', number)
end

-- Starts the table anew above `seen` and the clock; everything older is invalid from here on. Returns the new epoch.
local function epoch_restart(tags_key, seen, now_us)
    local epoch = math.max(seen + 1, now_us)
    redis.call('ZADD', tags_key, score_text(epoch), '!epoch', score_text(epoch), '!floor')
    return epoch
end

-- The epoch, after the table was repaired if it is missing or behind `seen`. The usual case costs one ZSCORE and writes nothing.
local function epoch_now(tags_key, seen, now_us)
    local score = redis.call('ZSCORE', tags_key, '!epoch')
    if not score or tonumber(score) < seen then
        return epoch_restart(tags_key, seen, now_us)
    end
    return tonumber(score)
end

-- The floor; to be called after epoch_now(). A table with an epoch but no floor was tampered with: nothing older is trusted.
local function epoch_floor(tags_key, epoch)
    local score = redis.call('ZSCORE', tags_key, '!floor')
    if not score then
        redis.call('ZADD', tags_key, score_text(epoch), '!floor')
        return epoch
    end
    return tonumber(score)
end

local function is_stamp(member)
    local kind = string.sub(member, 1, 1)
    return kind == 't' or kind == 's'
end

-- What was invalidated after `seen`, oldest first, at most `most` stamps: {member, epoch, member, epoch, ...}, and 1 if that is not
-- all (then the node must take the epoch for its floor), else 0.
local function epoch_stamps(tags_key, seen, most)
    local stamps, more = {}, 0
    local found = redis.call('ZRANGEBYSCORE', tags_key, '(' .. score_text(seen), '+inf', 'WITHSCORES', 'LIMIT', 0, most + 3)
    for i = 1, #found, 2 do
        if is_stamp(found[i]) then
            if #stamps == 2 * most then
                more = 1
                break
            end
            stamps[#stamps + 1] = found[i]
            stamps[#stamps + 1] = tonumber(found[i + 1])
        end
    end
    return stamps, more
end

-- What every script answers: the epoch, the stamps given since the caller's `seen`, and its own result.
local function with_news(tags_key, seen, epoch, result)
    if epoch == seen then
        return {epoch, 0, 0, {}, result}
    end
    local stamps, more = epoch_stamps(tags_key, seen, 128)
    return {epoch, epoch_floor(tags_key, epoch), more, stamps, result}
end
