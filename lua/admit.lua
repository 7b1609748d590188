-- admit.lua: which of these requests may pass, and what is left of their limits?
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2..] the limit keys, each once; a value is 's' and four little-endian 64-bit integers: window_us, stamp_us, current, previous
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  the batch, packed little-endian without padding (policies/admit_wire.h), tuples in order of arrival:
--          double count of identical requests (>= 0), byte number of charges; then each charge:
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

--@include epoch
-- All integers here stay below 2^53, for which floor(a / b) is exact although a / b is rounded: a quotient that is not whole lies
-- at least 1/b below the next integer q, and could only be rounded up to q if q * b > 2^53, that is if a >= 2^53.
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local EXACT, LAST_US = 2 ^ 53, 2 ^ 52
local STATE, STATE_BYTES = '<c1i8i8i8i8', 33
local MOST_STAMPS = 128

local now_us = clock_us(ARGV[1])
local seen = tonumber(ARGV[2])
local batch = ARGV[3]

-- The states as this script knows them, one array a field, indexed like KEYS.
local window_us, stamp_us, current, previous = {}, {}, {}, {}
local is_found, is_written, found_ttl_ms = {}, {}, {}

local function read_states()
    if #KEYS < 2 then
        return
    end
    local values = redis.call('MGET', unpack(KEYS, 2))
    for i = 2, #KEYS do
        local value = values[i - 1]
        local kind, w, s, c, p = nil, 0, 0, 0, 0
        if value then
            is_found[i] = true
            if #value == STATE_BYTES then
                kind, w, s, c, p = struct.unpack(STATE, value)
            end
        end
        local is_sane = kind == 's' and w > 0 and w <= LAST_US and s >= 0 and s <= LAST_US and c >= 0 and c < EXACT and p >= 0 and
                            p < EXACT
        if not is_sane then
            w, s, c, p = 0, 0, 0, 0
        end
        window_us[i], stamp_us[i], current[i], previous[i] = w, s, c, p
    end
end

local function ttl_ms(w, s)
    return ceil((s + 2 * w - now_us) / 1000) + 1000
end

-- The state of KEYS[i] brought to now under a rule: window, stamp, current, previous; and must it be kept even by a refusal?
local function advance(i, limit, rule_window_us, ticks)
    local w, s, c, p = window_us[i], stamp_us[i], current[i], previous[i]
    if w == 0 then
        return now_us, 0, 0, false
    end
    if s > now_us + rule_window_us then
        return now_us, min(limit, c + p), 0, true
    end
    if w ~= rule_window_us then
        c, p = min(limit, c + p), 0
    end
    local at_us = max(s, now_us)
    local turns = floor(at_us / rule_window_us) - floor(s / rule_window_us)
    if turns == 1 then
        c, p = 0, c
    elseif turns > 1 then
        c, p = 0, 0
    end
    local most = floor((EXACT - 1) / ticks) -- what can be weighed exactly; never below the limit
    return at_us, min(c, most), min(p, most), false
end

-- From now to the moment at which, alone, one more of `cost` would pass; `elapsed` ticks of the window of `at_us` have gone.
local function retry_us(at_us, c, p, limit, rule_window_us, tick_us, ticks, elapsed, cost)
    if cost > limit then
        return -1
    end
    local start_us = at_us - at_us % rule_window_us
    if c + cost <= limit then
        local room = (limit - c - cost) * ticks
        if p * (ticks - elapsed) <= room then
            return 0
        end
        return start_us + (ticks - floor(room / p)) * tick_us - now_us
    end
    local spare = (limit - cost) * ticks -- in the next window, where `current` is the previous count
    return start_us + rule_window_us + (ticks - floor(spare / c)) * tick_us - now_us
end

-- The charges of the tuple at hand, one array a field; overwritten by the next tuple.
local key, rule_limit, rule_window, rule_tick, rule_cost = {}, {}, {}, {}, {}
local new_stamp, new_current, new_previous, must_keep = {}, {}, {}, {}

local function units_available(c, p, limit, ticks, elapsed)
    if c >= limit then
        return 0
    end
    local free = (limit - c) * ticks - p * (ticks - elapsed)
    return free > 0 and floor(free / ticks) or 0
end

local function elapsed_ticks(j)
    return floor((new_stamp[j] % rule_window[j]) / rule_tick[j])
end

-- Brings each charge's state to now; returns how many of `count` requests all of them allow.
local function weigh(charges, count)
    local passing = count
    for j = 1, charges do
        local ticks = rule_window[j] / rule_tick[j]
        local s, c, p, keep = advance(key[j], rule_limit[j], rule_window[j], ticks)
        new_stamp[j], new_current[j], new_previous[j], must_keep[j] = s, c, p, keep
        local units = units_available(c, p, rule_limit[j], ticks, elapsed_ticks(j))
        passing = min(passing, floor(units / rule_cost[j]))
    end
    return passing
end

-- Charges what passes and appends to `numbers` how each limit stands afterwards.
local function settle(charges, passing, numbers)
    for j = 1, charges do
        local i, ticks, elapsed = key[j], rule_window[j] / rule_tick[j], elapsed_ticks(j)
        local s, c, p = new_stamp[j], new_current[j] + passing * rule_cost[j], new_previous[j]
        if passing > 0 or must_keep[j] then
            window_us[i], stamp_us[i], current[i], previous[i] = rule_window[j], s, c, p
            is_written[i] = true
        end
        found_ttl_ms[i] = ttl_ms(rule_window[j], s)
        local n = #numbers
        numbers[n + 1] = units_available(c, p, rule_limit[j], ticks, elapsed)
        numbers[n + 2] = s - s % rule_window[j] + rule_window[j] - now_us
        numbers[n + 3] = retry_us(s, c, p, rule_limit[j], rule_window[j], rule_tick[j], ticks, elapsed, rule_cost[j])
    end
end

local function decide()
    local numbers, at = {}, 1
    while at <= #batch do
        local count, charges, algorithm
        count, charges, at = struct.unpack('<dB', batch, at)
        for j = 1, charges do
            key[j], algorithm, rule_limit[j], rule_window[j], rule_tick[j], rule_cost[j], at =
                struct.unpack('<Hc1dddd', batch, at)
            if algorithm ~= 's' then
                error('unknown limit algorithm')
            end
        end
        local passing = weigh(charges, count)
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
