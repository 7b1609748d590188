#!lua flags=allow-oom
-- release.lua: the owner of a flight gives it up without an entry, or goes on.
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2]  the entry, KEYS[3] the flight (see cache.lua)
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  token of the load
-- ARGV[4]  why: failed, uncacheable, cancelled, or renew
-- ARGV[5]  status that the waiters of a failed load share
-- ARGV[6]  ms: how long `failed` and `uncacheable` are remembered (0: not at all); the new lease for `renew`
-- ARGV[7]  channel and ARGV[8] message that wake
-- returns  {epoch, floor, more, {member, epoch, ...}, held 0|1}; the first four as in admit.lua
--
-- Only with the right token; without it nothing is done. Whatever marks the outcome takes the flight's place in one step, so that
-- nobody can begin in between. An uncacheable response takes the copy that it was to replace with it. A load of a key whose last
-- answer could not be shared, and that ends without one, leaves that remembered as long as it would have been.

--@include epoch
--@include cache
local now_us = clock_us(ARGV[1])
local seen, token, why, ms = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[6]
local epoch = epoch_now(KEYS[1], seen, now_us)
local flight = flight_read(KEYS[3], 1)

if not flight or flight.kind ~= 'L' or flight.token ~= token then
    return with_news(KEYS[1], seen, epoch, 0)
end
if why == 'renew' then
    redis.call('PEXPIRE', KEYS[3], ms)
    return with_news(KEYS[1], seen, epoch, 1)
end

local marker = nil
if flight.waiting == 'p' and why ~= 'uncacheable' then
    marker = 'P'
    ms = score_text(math.max(0, math.ceil((tonumber(flight.before) - now_us) / 1000)))
elseif why == 'failed' then
    marker = 'F' .. token .. ' ' .. ARGV[5]
elseif why == 'uncacheable' then
    marker = 'P'
    redis.call('UNLINK', KEYS[2])
end
if marker and tonumber(ms) > 0 then
    redis.call('SET', KEYS[3], marker, 'PX', ms)
else
    redis.call('UNLINK', KEYS[3])
end
flight_wake(flight, ARGV[7], ARGV[8])
return with_news(KEYS[1], seen, epoch, 1)
