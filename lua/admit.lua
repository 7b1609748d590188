#!lua
-- admit.lua: which of these requests may pass, and what is left of their limits?
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2..] the limit keys, each once; what their values hold stands with each algorithm below
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  the batch, packed little-endian without padding (policies/admit_wire.h), tuples in order of arrival:
--          double count of identical requests (>= 0; -1: as many as the last tuple with a count of its own let pass, of which it is a
--          shadow), byte number of charges; then each charge:
--          uint16 which of KEYS (2..), byte algorithm, doubles limit, window_us, tick_us, extra, cost (>= 1)
--            's' sliding_window, 'l' sliding_log   extra: 0
--            't' token_bucket                      extra: burst
--            'f' fixed_window                      extra: 0 multiples of the window, 1 weeks, 2 months
--          The keys of one tuple are distinct. Every number is an integer that budget_tick() of policies/budget.h allows.
-- ARGV[4]  a byte for each limit key, in order: 'l' where a charge of the batch is a sliding_log, else '-'
-- returns  {epoch, floor, more, {member, epoch, ...}, {numbers}}
--          numbers, for each tuple: how many of its count pass, then for each charge: units available, reset_us,
--          retry_after_us (0: one more of the same passes; -1: never, the cost is above the capacity)
--          floor and the stamps are those since ARGV[2], and only filled (else 0, {}) where the epoch is above it; more is 1 where
--          there were too many: then everything older than the epoch counts as invalid.
--
-- This is policies/budget.c and the algorithms below it a second time, in doubles; tests/lua holds one to the other. Of a tuple's n
-- requests the first m pass, m the largest that every limit allows, and each limit is charged m times; a batch decides what its
-- requests would one by one, whatever their algorithms. The server's clock is the only clock, and never runs backwards for a key.
-- A refusal writes nothing, except to repair: a key without TTL is given one; a state stamped by a clock that was far ahead is
-- taken into the present; a log whose limit has another algorithm now is cut to what that can know of it. Value and TTL are one
-- step.
-- It is declared as one that writes: a demoted master refuses it, also where nothing would be written.

--@include epoch
-- All integers here stay below 2^53, for which floor(a / b) is exact although a / b is rounded: a quotient that is not whole lies
-- at least 1/b below the next integer q, and could only be rounded up to q if q * b > 2^53, that is if a >= 2^53.
local floor = math.floor
local unpack_struct, pack_struct = struct.unpack, struct.pack
local EXACT, LAST_US, U32 = 2 ^ 53, 2 ^ 52, 2 ^ 32
local MOST_STAMPS, LOG_BYTES = 128, 37

local now_us = clock_us(ARGV[1])
local seen = tonumber(ARGV[2])
local batch = ARGV[3]

-- The states as this script knows them, one array a field, indexed like KEYS. (An array that is born with its first places costs
-- half of one that must grow; most batches are small.) kind: the algorithm's letter, false where nothing (of ours) was found.
-- a, b, c: the algorithm's own.
local kind, stamp_us, state_a, state_b, state_c = {false, false}, {0, 0}, {0, 0}, {0, 0}, {0, 0}
local is_found, is_written, ends_us = {false, false}, {false, false}, {false, false}

-- The charges of the tuple at hand, one array a field, and their states brought to now; overwritten by the next tuple.
local key, rule_algorithm, rule_limit, rule_window = {0, 0}, {0, 0}, {0, 0}, {0, 0}
local rule_tick, rule_extra, rule_cost = {0, 0}, {0, 0}, {0, 0}
local must_keep, new_stamp, new_a, new_b, new_c = {false, false}, {0, 0}, {0, 0}, {0, 0}, {0, 0}
local helper = {0, 0} -- of the algorithm, for this decision

local function smaller(x, y)
    if x < y then
        return x
    end
    return y
end

local function quotient_up(x, y)
    local q = floor(x / y)
    if q * y < x then
        return q + 1
    end
    return q
end

local function is_moment(us)
    return us >= 0 and us <= LAST_US
end

local function is_count(units)
    return units >= 0 and units < EXACT
end

-- ---- the algorithms ----
-- Each is made when a batch first needs it (most need one, and functions cost more than deciding), and is a table of functions. Of a key i:
--   read(i, value)               takes the state from a value, unless no limit of ours could have left it: then the key was never seen
--   remembered(i)                units that the state knows of
--   write(i, ttl)                ttl: milliseconds, as text
-- Of a charge j of the tuple:
--   adopt(j, units)              a, b, c of a state in which just so many units were admitted at its stamp
--   advance(j, s, a, b, c)       brings the state to now, into the arrays above; true: keep it even if nothing is charged
--   available(j), charge(j, n)   units
--   stand(j)                     moments at which more becomes available, at which `cost` passes (nil: now), and at which
--                                nothing of the state counts any more
--   keep(j)                      the log's only: what it has beside a, b and c

--@include sliding_window
--@include token_bucket
--@include fixed_window
--@include sliding_log

local make = {s = sliding_window, l = sliding_log, t = token_bucket, f = fixed_window}
local made = {}

-- nil: no letter of ours.
local function algorithm_of(letter)
    local it = made[letter]
    if not it and make[letter] then
        it = make[letter]()
        made[letter] = it
    end
    return it
end

-- ---- reading ----

local function read_state(i, value)
    local it = algorithm_of(string.sub(value, 1, 1))
    if it then
        it.read(i, value)
    end
end

-- A log's ring stays where it is: only the head of such a value is fetched, which is all of any other.
local function read_with_log_heads(logs)
    local others, at = {}, {}
    for i = 2, #KEYS do
        kind[i], is_found[i] = false, true
        if string.sub(logs, i - 1, i - 1) == 'l' then
            local value = redis.pcall('GETRANGE', KEYS[i], 0, LOG_BYTES - 1)
            if type(value) == 'string' then
                read_state(i, value)
            end
        else
            others[#others + 1] = KEYS[i]
            at[#at + 1] = i
        end
    end
    return others, at
end

-- Returns which keys hold a log with its ring although no limit of this batch is one.
local function read_states()
    local with_ring = {}
    if #KEYS < 2 then
        return with_ring
    end
    local names, at = KEYS, nil
    local values
    if string.find(ARGV[4], 'l', 1, true) then
        names, at = read_with_log_heads(ARGV[4])
        values = #names > 0 and redis.call('MGET', unpack(names)) or {}
    else
        values = redis.call('MGET', unpack(KEYS, 2))
    end
    for n = 1, #values do
        local i, value = at and at[n] or n + 1, values[n]
        kind[i], is_found[i] = false, value ~= false
        if value then
            read_state(i, value)
            if kind[i] == 'l' and #value > LOG_BYTES then
                with_ring[i] = true
            end
        end
    end
    return with_ring
end

-- ---- deciding ----

local function capacity(j)
    if rule_algorithm[j] == 't' then
        return rule_extra[j]
    end
    return rule_limit[j]
end

-- What another algorithm left counts as admitted at its last admission.
local function bring_to_now(j, it)
    local i = key[j]
    if kind[i] == rule_algorithm[j] then
        return it.advance(j, stamp_us[i], state_a[i], state_b[i], state_c[i])
    end
    if kind[i] then
        local units = smaller(capacity(j), made[kind[i]].remembered(i))
        if units > 0 then
            return it.advance(j, stamp_us[i], it.adopt(j, units))
        end
    end
    return it.advance(j)
end

-- Brings each charge's state to now; returns how many of `count` requests all of them allow.
local function weigh(charges, count)
    local passing = count
    for j = 1, charges do
        local it = made[rule_algorithm[j]]
        must_keep[j] = bring_to_now(j, it)
        passing = smaller(passing, floor(it.available(j) / rule_cost[j]))
    end
    return passing
end

-- Charges what passes and appends to `numbers` how each limit stands afterwards. What is kept is written in the end.
local function settle(charges, passing, numbers)
    local n = #numbers
    for j = 1, charges do
        local i, it = key[j], made[rule_algorithm[j]]
        if passing > 0 then
            it.charge(j, passing * rule_cost[j])
        end
        if passing > 0 or must_keep[j] then
            kind[i], stamp_us[i], state_a[i], state_b[i], state_c[i] = rule_algorithm[j], new_stamp[j], new_a[j], new_b[j], new_c[j]
            is_written[i] = true
            if it.keep then
                it.keep(j)
            end
        end
        local more, passes, ends = it.stand(j)
        local retry_us = passes and passes - now_us or 0
        if rule_cost[j] > capacity(j) then
            retry_us = -1
        end
        ends_us[i] = ends
        numbers[n + 1] = it.available(j)
        numbers[n + 2] = more - now_us
        numbers[n + 3] = retry_us
        n = n + 3
    end
end

local function decide()
    local numbers, at, passed = {}, 1, 0
    while at <= #batch do
        local count, charges
        count, charges, at = unpack_struct('<dB', batch, at)
        for j = 1, charges do
            key[j], rule_algorithm[j], rule_limit[j], rule_window[j], rule_tick[j], rule_extra[j], rule_cost[j], at =
                unpack_struct('<Hc1ddddd', batch, at)
            if not algorithm_of(rule_algorithm[j]) then
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

-- In milliseconds, a second longer than anything counts, for clocks that drift.
local function ttl_text(i)
    return string.format('%.0f', math.ceil(math.max(ends_us[i] - now_us, 0) / 1000) + 1000)
end

local function write_states(with_ring)
    for i = 2, #KEYS do
        if is_written[i] then
            made[kind[i]].write(i, ttl_text(i))
        elseif with_ring[i] and ends_us[i] then
            made.l.cut(i, ttl_text(i))
        elseif is_found[i] and ends_us[i] and redis.call('PTTL', KEYS[i]) == -1 then
            redis.call('PEXPIRE', KEYS[i], ttl_text(i))
        end
    end
end

local epoch = epoch_now(KEYS[1], seen, now_us)
local with_ring = read_states()
local numbers = decide()
write_states(with_ring)
if epoch == seen then
    return {epoch, 0, 0, {}, numbers}
end
local stamps, more = epoch_stamps(KEYS[1], seen, MOST_STAMPS)
return {epoch, epoch_floor(KEYS[1], epoch), more, stamps, numbers}
