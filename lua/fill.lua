#!lua
-- fill.lua: may this load write its entry; and whoever waited for it is told.
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2]  the entry, KEYS[3] the flight (see cache.lua)
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  token of the load
-- ARGV[4]  the epoch at which it began
-- ARGV[5..8] fresh_us, stale_us, error_us: lifetimes, each from now on; age_us: the entry's age now (integers >= 0)
-- ARGV[9]  the entry's tags, packed
-- ARGV[10] channel and ARGV[11] message that wake
-- ARGV[12] the entry's bytes
-- ARGV[13] keep_us: until then, from now on, it is worth validating; below the other lifetimes or left out: as they
-- returns  {epoch, floor, more, {member, epoch, ...}, result}; the first four as in admit.lua. result is
--          stored, superseded (the token does not hold the flight: nothing is done), invalidated (a tag was, since the load began)
--
-- What a soft invalidation has overtaken is stored all the same: it is no older than the copy it replaces, and stale at once.
-- An old owner can neither write nor end a younger flight. The owner's flight is over in every case. Value and TTL are one step.

--@include epoch
--@include cache
local now_us = clock_us(ARGV[1])
local seen, token, began = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local epoch = epoch_now(KEYS[1], seen, now_us)
local flight = flight_read(KEYS[3], 1)

if not flight or flight.kind ~= 'L' or flight.token ~= token then
    return with_news(KEYS[1], seen, epoch, 'superseded')
end
redis.call('UNLINK', KEYS[3])
flight_wake(flight, ARGV[10], ARGV[11])
if is_void(KEYS[1], epoch, epoch_floor(KEYS[1], epoch), began, tags_unpack(ARGV[9])) then
    return with_news(KEYS[1], seen, epoch, 'invalidated')
end

local keep_us = ARGV[13] or '0'
local life_us = math.max(tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(keep_us))
redis.call('UNLINK', KEYS[2])
redis.call('HSET', KEYS[2], 'e', ARGV[4], 'a', score_text(now_us), 'f', ARGV[5], 's', ARGV[6], 'x', ARGV[7], 'g', ARGV[8],
           't', ARGV[9], 'd', ARGV[12], 'k', keep_us)
redis.call('PEXPIRE', KEYS[2], score_text(math.max(1, math.ceil(life_us / 1000))))
redis.call('ZADD', KEYS[1], 'GT', score_text(life_us), '!life') -- what the sweep in invalidate.lua goes by
return with_news(KEYS[1], seen, epoch, 'stored')
