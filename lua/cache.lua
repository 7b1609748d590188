--@fragment
-- cache.lua: how are entries, flights and their outcomes written down, and what makes them void? Included by the scripts of the cache.
--
-- An entry is a hash: e, the epoch at which its load began; a, when it was stored; f, s, x, how long from then it is fresh, is
-- served while one refresh runs, stands in for an upstream error; k, how long it is worth validating (may be missing); w, the soft
-- stamp that these show already (may be missing); g, its age
-- (RFC 9111) when it was stored; t, its tags (each a little-endian uint16 of length, and the bytes); d, the encoded response. Times
-- are microseconds, on the server's clock.
--
-- A flight is a string with a TTL: who loads this key, or what became of the last load.
--   L<token> <epoch> <waiting>[ <token> <status> <until_us>]  being loaded, since that epoch; waiting is 1 when somebody wants the
--                        wake. The second part remembers a load that failed before, for those who waited for that one.
--   L<token> <epoch> p <until_us>  likewise, but of a key whose last answer could not be shared: nobody waits to see whether this
--                        one can. A load that leaves the question open puts P back, until then.
--   F<token> <status>    that load failed: its waiters share the status, and nobody refreshes a stale copy meanwhile
--   P                    the response cannot be shared: nobody waits for anybody
--
-- What has another form was not written by us. It is removed, and counts as absent.

local ENTRY_NUMBERS = 6

local function tags_unpack(packed)
    local tags, at = {}, 1
    while at <= #packed do
        tags[#tags + 1], at = struct.unpack('<Hc0', packed, at)
    end
    return tags
end

-- The entry without its bytes, or nil.
local function entry_read(key)
    local fields = redis.pcall('HMGET', key, 'e', 'a', 'f', 's', 'x', 'g', 't', 'k', 'w')
    if not fields.err and not fields[1] and redis.call('EXISTS', key) == 0 then
        return nil
    end
    local is_sane = not fields.err
    for i = 1, ENTRY_NUMBERS do
        fields[i] = is_sane and tonumber(fields[i] or nil)
        is_sane = is_sane and fields[i] ~= nil and fields[i] >= 0
    end
    local can_unpack, tags = false, nil
    if is_sane then
        can_unpack, tags = pcall(tags_unpack, fields[7] or '')
    end
    if not can_unpack or redis.call('PTTL', key) == -1 then
        redis.call('UNLINK', key)
        return nil
    end
    return {epoch = fields[1], stored_us = fields[2], fresh_us = fields[3], stale_us = fields[4], error_us = fields[5],
            age_us = fields[6], tags = tags, keep_us = tonumber(fields[8] or nil) or 0,
            shown_epoch = tonumber(fields[9] or nil) or 0}
end

-- The flight, or nil. One without a TTL would last for ever: it is given `ttl_ms`.
local function flight_read(key, ttl_ms)
    local value = redis.pcall('GET', key)
    if not value then
        return nil
    end
    local flight
    if type(value) == 'string' then
        local token, epoch, waiting, before = string.match(value, '^L(%x+) (%d+) ([01p])(.*)$')
        if token then
            flight = {kind = 'L', token = token, epoch = tonumber(epoch), waiting = waiting, before = before}
        elseif value == 'P' then
            flight = {kind = 'P'}
        else
            local failed, status = string.match(value, '^F(%x+) (%d+)$')
            flight = failed and {kind = 'F', token = failed, status = tonumber(status)}
        end
    end
    if not flight then
        redis.call('UNLINK', key)
        return nil
    end
    flight.ttl_ms = redis.call('PTTL', key)
    if flight.ttl_ms == -1 then
        redis.call('PEXPIRE', key, ttl_ms)
        flight.ttl_ms = tonumber(ttl_ms)
    end
    return flight
end

local function flight_text(flight)
    return 'L' .. flight.token .. ' ' .. score_text(flight.epoch) .. ' ' .. flight.waiting .. flight.before
end

-- Whoever waits for this flight looks the key up again.
local function flight_wake(flight, channel, message)
    if flight.waiting == '1' then
        redis.call('PUBLISH', channel, message)
    end
end

-- Is what was loaded since `began` void, because one of its tags was invalidated since, or because it is older than what the
-- table remembers? One that began after the present epoch belongs to a table that is lost. If not, the highest soft stamp that one of
-- the tags was given since, or 0: by then it was stale.
local function is_void(tags_key, epoch, floor, began, tags)
    if began < floor or began > epoch then
        return true, 0
    end
    local count, soft, members = #tags, 0, {}
    if count == 0 then
        return false, 0
    end
    for i = 1, count do
        members[i], members[count + i] = 't' .. tags[i], 's' .. tags[i]
    end
    local stamps = redis.call('ZMSCORE', tags_key, unpack(members))
    for i = 1, count do
        if stamps[i] and tonumber(stamps[i]) > began then
            return true, 0
        end
        if stamps[count + i] and tonumber(stamps[count + i]) > began then
            soft = math.max(soft, tonumber(stamps[count + i]))
        end
    end
    return false, soft
end

-- Was the load overtaken, softly or not? Whoever asks now waits for one that begins now.
local function is_overtaken(tags_key, epoch, floor, began, tags)
    local gone, soft = is_void(tags_key, epoch, floor, began, tags)
    return gone or soft > 0
end
