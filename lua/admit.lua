#!lua
-- admit.lua: which of these requests may pass, and what is left of their limits?
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2..] the limit keys, each once; a value is 's' and four little-endian 64-bit integers: window_us, stamp_us, current, previous
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  the batch, packed little-endian without padding (policies/admit_wire.h), tuples in order of arrival:
--          double count of identical requests (>= 0; -1: as many as the last tuple with a count of its own let pass, of which it is a
--          shadow), byte number of charges; then each charge:
--          uint16 which of KEYS (2..), byte algorithm ('s'), doubles limit, window_us, tick_us, cost (>= 1)
--          The keys of one tuple are distinct. Every number is an integer with limit * (window_us / tick_us + 1) <= 2^53.
-- returns  {epoch, floor, more, {tag, epoch, ...}, {numbers}}
--          numbers, for each tuple: how many of its count pass, then for each charge: units available, reset_us,
--          retry_after_us (0: one more of the same passes; -1: never, the cost is above the limit)
--          floor and the stamps are those since ARGV[2], and only filled (else 0, {}) where the epoch is above it; more is 1 where
--          there were too many: then everything older than the epoch counts as invalid.
--
-- This is policies/sliding_window.c a second time, in doubles; tests/lua holds one to the other. Of a tuple's n requests the first
-- m pass, m the largest that every limit allows, and each limit is charged m times; a batch decides what its requests would one
-- by one. The server's clock is the only clock, and never runs backwards for a key. A refusal writes nothing, except to repair: a key
-- without TTL is given one, a state stamped by a clock that was far ahead is taken into the present. Value and TTL are one write.
-- It is declared as one that writes: a demoted master refuses it, also where nothing would be written.

--@include epoch
-- All integers here stay below 2^53, for which floor(a / b) is exact although a / b is rounded: a quotient that is not whole lies
-- at least 1/b below the next integer q, and could only be rounded up to q if q * b > 2^53, that is if a >= 2^53.
local floor = math.floor
local unpack_struct = struct.unpack
local EXACT, LAST_US = 2 ^ 53, 2 ^ 52
local STATE, STATE_BYTES = '<c1i8i8i8i8', 33
local MOST_STAMPS = 128

local now_us = clock_us(ARGV[1])
local seen = tonumber(ARGV[2])
local batch = ARGV[3]

-- The states as this script knows them, one array a field, indexed like KEYS. (An array that is born with its first places costs
-- half of one that must grow; most batches are small.)
local window_us, stamp_us, current, previous = {0, 0}, {0, 0}, {0, 0}, {0, 0}
local is_found, is_written, found_ttl_ms = {false, false}, {false, false}, {false, false}

local function smaller(a, b)
    if a < b then
        return a
    end
    return b
end

local function read_states()
    if #KEYS < 2 then
        return
    end
    local values = redis.call('MGET', unpack(KEYS, 2))
    for i = 2, #KEYS do
        local value = values[i - 1]
        local kind, w, s, c, p = nil, 0, 0, 0, 0
        if value and #value == STATE_BYTES then
            kind, w, s, c, p = unpack_struct(STATE, value)
        end
        if kind ~= 's' or w <= 0 or w > LAST_US or s < 0 or s > LAST_US or c < 0 or c >= EXACT or p < 0 or p >= EXACT then
            w, s, c, p = 0, 0, 0, 0
        end
        window_us[i], stamp_us[i], current[i], previous[i] = w, s, c, p
        is_found[i] = value ~= false
    end
end

local function ttl_ms(w, s)
    return math.ceil((s + 2 * w - now_us) / 1000) + 1000
end

-- The state of KEYS[i] brought to now under a rule: stamp, current, previous; and must it be kept even by a refusal?
local function advance(i, limit, rule_window_us, ticks)
    local w, s, c, p = window_us[i], stamp_us[i], current[i], previous[i]
    if w == 0 then
        return now_us, 0, 0, false
    end
    if s > now_us + rule_window_us then
        return now_us, smaller(limit, c + p), 0, true
    end
    if w ~= rule_window_us then
        c, p = smaller(limit, c + p), 0
    end
    if s < now_us then
        local turns = floor(now_us / rule_window_us) - floor(s / rule_window_us)
        if turns == 1 then
            c, p = 0, c
        elseif turns > 1 then
            c, p = 0, 0
        end
        s = now_us
    end
    local most = floor((EXACT - 1) / ticks) -- what can be weighed exactly; never below the limit
    return s, smaller(c, most), smaller(p, most), false
end

-- Units that one request could take; `left` ticks of the window are still to come.
local function units_available(c, p, limit, ticks, left)
    local free = (limit - c) * ticks - p * left
    if c >= limit or free <= 0 then
        return 0
    end
    return floor(free / ticks)
end

-- From now to the moment at which, alone, one more of `cost` would pass.
local function retry_us(c, p, limit, start_us, rule_window_us, tick_us, ticks, left, cost)
    if cost > limit then
        return -1
    end
    if c + cost <= limit then
        local room = (limit - c - cost) * ticks
        if p * left <= room then
            return 0
        end
        return start_us + (ticks - floor(room / p)) * tick_us - now_us
    end
    local room = (limit - cost) * ticks -- in the next window, where `current` is the previous count
    return start_us + rule_window_us + (ticks - floor(room / c)) * tick_us - now_us
end

-- The charges of the tuple at hand, one array a field, and their states brought to now; overwritten by the next tuple.
local key, rule_limit, rule_window, rule_tick, rule_cost = {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}
local new_stamp, new_current, new_previous, must_keep, ticks_left = {0, 0}, {0, 0}, {0, 0}, {false, false}, {0, 0}

-- Brings each charge's state to now; returns how many of `count` requests all of them allow.
local function weigh(charges, count)
    local passing = count
    for j = 1, charges do
        local limit, window, tick = rule_limit[j], rule_window[j], rule_tick[j]
        local ticks = window / tick
        local s, c, p, keep = advance(key[j], limit, window, ticks)
        local left = ticks - floor(s % window / tick)
        new_stamp[j], new_current[j], new_previous[j], must_keep[j], ticks_left[j] = s, c, p, keep, left
        passing = smaller(passing, floor(units_available(c, p, limit, ticks, left) / rule_cost[j]))
    end
    return passing
end

-- Charges what passes and appends to `numbers` how each limit stands afterwards.
local function settle(charges, passing, numbers)
    local n = #numbers
    for j = 1, charges do
        local i, limit, window, tick, cost = key[j], rule_limit[j], rule_window[j], rule_tick[j], rule_cost[j]
        local s, c, p = new_stamp[j], new_current[j] + passing * cost, new_previous[j]
        local start_us, ticks, left = s - s % window, window / tick, ticks_left[j]
        if passing > 0 or must_keep[j] then
            window_us[i], stamp_us[i], current[i], previous[i] = window, s, c, p
            is_written[i] = true
        end
        found_ttl_ms[i] = ttl_ms(window, s)
        numbers[n + 1] = units_available(c, p, limit, ticks, left)
        numbers[n + 2] = start_us + window - now_us
        numbers[n + 3] = retry_us(c, p, limit, start_us, window, tick, ticks, left, cost)
        n = n + 3
    end
end

local function decide()
    local numbers, at, passed = {}, 1, 0
    while at <= #batch do
        local count, charges, algorithm
        count, charges, at = unpack_struct('<dB', batch, at)
        for j = 1, charges do
            key[j], algorithm, rule_limit[j], rule_window[j], rule_tick[j], rule_cost[j], at =
                unpack_struct('<Hc1dddd', batch, at)
            if algorithm ~= 's' then
                error('unknown limit algorithm')
            end
        end
        local passing
        if count < 0 then
            passing = weigh(charges, passed)
        else
            passing = weigh(charges, count)
            passed = passing
        end
        numbers[#numbers + 1] = passing
        settle(charges, passing, numbers)
    end
    return numbers
end

local function write_states()
    for i = 2, #KEYS do
        if is_written[i] then
            redis.call('SET', KEYS[i], struct.pack(STATE, 's', window_us[i], stamp_us[i], current[i], previous[i]), 'PX',
                       string.format('%.0f', ttl_ms(window_us[i], stamp_us[i])))
        elseif is_found[i] and found_ttl_ms[i] and redis.call('PTTL', KEYS[i]) == -1 then
            redis.call('PEXPIRE', KEYS[i], string.format('%.0f', found_ttl_ms[i]))
        end
    end
end

local epoch = epoch_now(KEYS[1], seen, now_us)
read_states()
local numbers = decide()
write_states()
if epoch == seen then
    return {epoch, 0, 0, {}, numbers}
end
local stamps, more = epoch_stamps(KEYS[1], seen, MOST_STAMPS)
return {epoch, epoch_floor(KEYS[1], epoch), more, stamps, numbers}
