#!lua flags=allow-oom
-- lookup.lua: is there something to serve for this key, and if not, who loads it?
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2]  the entry, KEYS[3] the flight (see cache.lua)
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  token: 32 hex digits, never used before; names the caller's load, if it becomes one
-- ARGV[4]  lease_ms of that load (integer > 0); 0: a mere look, which takes nothing, and lets nobody wait
-- ARGV[5]  the token of the load that the caller has waited for, or ''; 'new': it wants what is loaded from now on and nothing that
--          is stored, and waits for nobody: so it is told load, probe or pass
-- ARGV[6]  stored_us of an entry that the caller could not decode and wants removed, or ''
-- ARGV[7..] the tags that the route declares
-- returns  {epoch, floor, more, {member, epoch, ...}, {kind, token, epoch, wait_ms, status, stored_us, fresh_us, stale_us, error_us,
--          age_us, bytes}}; the first four as in admit.lua. The times are what is left of each, 0 if nothing; bytes '' where there
--          is no entry to hand out. kind is
--          fresh   serve it                         stale  serve it; where token is set, the caller alone refreshes it
--          load    the caller loads, with `token` since `epoch`             wait  `token` is loading, for wait_ms at most
--          probe   as load, of a key that others pass meanwhile: its last answer could not be shared, this one may
--          absent  to a mere look: nothing to be served as it is
--          pass    go alone                         failed the load that was waited for ended with `status`
--
-- Reading and taking are one step: no load that has just ended is loaded again. Of all callers one holds the flight. An
-- entry that a tag's stamp, the floor or the end of its windows has made void is removed, never handed out. A flight that
-- began before one of the route's tags was invalidated, softly or not, is of no use to who asks now: it is taken over, and its token
-- is worth nothing.
-- While an answer that cannot be shared is remembered one caller at a time still holds the flight, so that the first answer that
-- can be shared ends that; nobody waits for him.
-- A soft stamp ends an entry's freshness at its own moment (an epoch is one), and the windows behind it move forward by as much; this
-- is noted in the entry when it is first seen, so that stamps that follow prolong nothing. For validation it stays as good as it was.
-- An entry past its windows is handed out with all of them 0, to whoever loads, waits or merely looks: the upstream can be asked whether it changed.
-- Time never runs backwards: an entry stored later than now is read as if stored now.
-- It is declared as one that writes: a demoted master refuses it, rather than serve what its successor has invalidated.

--@include epoch
--@include cache
local now_us = clock_us(ARGV[1])
local seen = tonumber(ARGV[2])
local token, lease_ms, waited, damaged = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local epoch = epoch_now(KEYS[1], seen, now_us)
local floor = epoch_floor(KEYS[1], epoch)

-- An epoch may be ahead of the clock, but what it stamped is stale by now.
local function end_freshness(entry, soft_us)
    local early_us = entry.fresh_us - (math.min(soft_us, now_us) - entry.stored_us)
    if early_us > 0 then
        entry.keep_us = math.max(entry.fresh_us, entry.stale_us, entry.error_us, entry.keep_us)
        entry.fresh_us, entry.stale_us = math.max(0, entry.fresh_us - early_us), math.max(0, entry.stale_us - early_us)
        entry.error_us = math.max(0, entry.error_us - early_us)
    end
    redis.call('HSET', KEYS[2], 'f', score_text(entry.fresh_us), 's', score_text(entry.stale_us), 'x', score_text(entry.error_us),
               'k', score_text(entry.keep_us), 'w', score_text(soft_us))
end

local function usable_entry()
    local entry = entry_read(KEYS[2])
    if not entry then
        return nil
    end
    local is_gone, soft = is_void(KEYS[1], epoch, floor, entry.epoch, entry.tags)
    entry.elapsed_us = math.max(0, now_us - entry.stored_us)
    if is_gone or score_text(entry.stored_us) == damaged or
        entry.elapsed_us >= math.max(entry.fresh_us, entry.stale_us, entry.error_us, entry.keep_us) then
        redis.call('UNLINK', KEYS[2])
        return nil
    end
    if soft > entry.shown_epoch then
        end_freshness(entry, soft)
    end
    return entry
end

local entry = usable_entry()

local function left(lifetime_us)
    return math.max(0, lifetime_us - entry.elapsed_us)
end

local function answer(kind, holder, began, wait_ms, status)
    local result = {kind, holder or '', began or 0, wait_ms or 0, status or 0, 0, 0, 0, 0, 0, ''}
    if entry and kind ~= 'pass' then
        result[6], result[7], result[8], result[9] = entry.stored_us, left(entry.fresh_us), left(entry.stale_us), left(entry.error_us)
        result[10], result[11] = entry.age_us + entry.elapsed_us, redis.call('HGET', KEYS[2], 'd') or ''
    end
    return with_news(KEYS[1], seen, epoch, result)
end

local wants_new = waited == 'new'
if entry and entry.elapsed_us < entry.fresh_us and not wants_new then
    return answer('fresh')
end

if lease_ms == '0' then
    return answer(entry and entry.elapsed_us < entry.stale_us and 'stale' or 'absent')
end

local flight = flight_read(KEYS[3], lease_ms)
local declared = {unpack(ARGV, 7)}
local is_late = flight and flight.kind == 'L' and is_overtaken(KEYS[1], epoch, floor, flight.epoch, declared)

-- What those who wait for an earlier, failed load will want to know when they come; or how long a pass marker had still to go.
local function memory_of(past)
    if past and past.kind == 'F' then
        return ' ' .. past.token .. ' ' .. past.status .. ' ' .. score_text(now_us + past.ttl_ms * 1000)
    elseif past and past.kind == 'P' then
        return ' ' .. score_text(now_us + past.ttl_ms * 1000)
    end
    return past and past.before or ''
end

local function waiting_for(past)
    if past and past.kind == 'P' then
        return 'p'
    end
    return past and past.waiting or '0'
end

local function take()
    local mine = {token = token, epoch = epoch, waiting = waiting_for(flight), before = memory_of(flight)}
    redis.call('SET', KEYS[3], flight_text(mine), 'PX', lease_ms)
    return mine.waiting == 'p' and 'probe' or 'load'
end

if wants_new then
    if flight and flight.kind == 'L' and not is_late then
        return answer('pass')
    end
    return answer(take(), token, epoch)
end

if entry and entry.elapsed_us < entry.stale_us then
    if flight and not is_late then
        return answer('stale')
    end
    take()
    return answer('stale', token, epoch)
end

if flight and flight.kind == 'F' and (flight.token == waited or (entry and entry.elapsed_us < entry.error_us)) then
    return answer('failed', nil, nil, nil, flight.status)
end
if flight and flight.kind == 'L' and not is_late then
    if flight.waiting == 'p' then
        return answer('pass')
    end
    local failed, status, until_us = string.match(flight.before, '^ (%x+) (%d+) (%d+)$')
    if failed == waited and tonumber(until_us) > now_us then
        return answer('failed', nil, nil, nil, tonumber(status))
    end
    if flight.waiting == '0' then
        flight.waiting = '1'
        redis.call('SET', KEYS[3], flight_text(flight), 'KEEPTTL')
    end
    return answer('wait', flight.token, nil, flight.ttl_ms)
end
return answer(take(), token, epoch)
