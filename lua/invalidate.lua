#!lua flags=allow-oom
-- invalidate.lua: from now on no entry that carries one of these tags, and was loaded before now, is served by anybody; or, where the
-- stamp is a soft one, it is stale.
--
-- KEYS[1]  the tag table (see epoch.lua)
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  channel that tells the other nodes
-- ARGV[4..] members of the tag table: "t" .. tag for a hard stamp, "s" .. tag for a soft one; or "!floor" for everything
-- returns  {epoch, floor, more, {member, epoch, ...}, epoch}; the first four as in admit.lua, of after the invalidation
--
-- The epoch never goes back: max(previous + 1, now). The message is "<previous epoch> <epoch> " and each as "<length>:<member>":
-- a node that has seen the previous epoch knows all there is to know once it has read it; any other one, and any that is shown
-- "!floor", must ask.
-- Stamps so old that no living entry can be older are swept into the floor, a few at a time, so that the table does not grow.

--@include epoch
--@include cache
local MOST_SWEPT = 16
local LEAST_KEPT_US = 3600 * 1000000 -- of a stamp, however short-lived the entries are: longer than any load takes
local now_us = clock_us(ARGV[1])
local seen = tonumber(ARGV[2])
local previous = epoch_now(KEYS[1], seen, now_us)
local epoch = math.max(previous + 1, now_us)

local function record()
    local stamp, message = score_text(epoch), {score_text(previous), ' ', score_text(epoch), ' '}
    for i = 4, #ARGV do
        redis.call('ZADD', KEYS[1], stamp, ARGV[i])
        message[#message + 1] = #ARGV[i] .. ':' .. ARGV[i]
    end
    redis.call('ZADD', KEYS[1], stamp, '!epoch')
    redis.call('PUBLISH', ARGV[3], table.concat(message))
end

local function sweep()
    local life_us = tonumber(redis.call('ZSCORE', KEYS[1], '!life') or 0)
    local before_us = now_us - math.max(life_us, LEAST_KEPT_US)
    local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. score_text(before_us), 'WITHSCORES', 'LIMIT', 0, MOST_SWEPT + 3)
    local floor, swept = epoch_floor(KEYS[1], epoch), 0
    for i = 1, #found, 2 do -- oldest first; the members that are no stamps lie among them
        if is_stamp(found[i]) and swept < MOST_SWEPT then
            redis.call('ZREM', KEYS[1], found[i])
            floor, swept = math.max(floor, tonumber(found[i + 1])), swept + 1
        end
    end
    redis.call('ZADD', KEYS[1], 'GT', score_text(floor), '!floor')
end

record()
sweep()
return with_news(KEYS[1], seen, epoch, epoch)
