--@fragment
-- budget.lua: what was charged to the limits of this call, by whatever algorithm? policies/budget.c a second time.
-- Included by the scripts that decide about limits or charge them, after epoch.lua; their KEYS[2..], ARGV[1] (now_us), ARGV[2] (seen)
-- and ARGV[4] (readings) are as admit.lua says.

-- All integers here stay below 2^53, for which floor(a / b) is exact although a / b is rounded: a quotient that is not whole lies
-- at least 1/b below the next integer q, and could only be rounded up to q if q * b > 2^53, that is if a >= 2^53.
local floor = math.floor
local unpack_struct, pack_struct = struct.unpack, struct.pack
local EXACT, LAST_US, U32 = 2 ^ 53, 2 ^ 52, 2 ^ 32
local LOG_BYTES = 37

local now_us = clock_us(ARGV[1])
local seen = tonumber(ARGV[2])
local readings = ARGV[4]

-- The states as this script knows them, one array a field, indexed like KEYS. (An array that is born with its first places costs
-- half of one that must grow; most batches are small.) kind: the algorithm's letter, false where nothing (of ours) was found.
-- a, b, c: the algorithm's own.
local kind, stamp_us, state_a, state_b, state_c = {false, false}, {0, 0}, {0, 0}, {0, 0}, {0, 0}
local is_found, is_written, ends_us = {false, false}, {false, false}, {false, false}
local is_cut = {} -- a log that another algorithm was asked of

-- The charges at hand, one array a field, and their states brought to now; overwritten by the next ones. Where rule_lease is above
-- 0, others may hold units under holds_key (holds.lua), and this one does so by tokens from first_hold on, unless that is -1.
local key, rule_algorithm, rule_limit, rule_window = {0, 0}, {0, 0}, {0, 0}, {0, 0}
local rule_tick, rule_extra, rule_cost = {0, 0}, {0, 0}, {0, 0}
local holds_key, rule_lease, first_hold = {0, 0}, {0, 0}, {0, 0}
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
--   room(j)                      units that the state could count beside those it has, whether the limit allows them or not
--   stand(j)                     moments at which more becomes available, at which `cost` passes (nil: now), and at which
--                                nothing of the state counts any more
--   keep(j)                      the log's only: what it has beside a, b and c

--@include sliding_window
--@include token_bucket
--@include fixed_window
--@include sliding_log

-- Nothing is ever charged: only holds take units.
local function concurrency()
    local it = {}

    function it.advance(j)
        return false
    end

    function it.available(j)
        return rule_limit[j]
    end

    function it.room(j)
        return 0
    end

    function it.stand(j)
        return now_us, nil, now_us
    end

    return it
end

local make = {s = sliding_window, l = sliding_log, t = token_bucket, f = fixed_window, c = concurrency}
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

-- A log's ring stays where it is: only the head of such a value is fetched, which is all of any other. Holds are not read here.
local function read_with_log_heads()
    local others, at = {}, {}
    for i = 2, #KEYS do
        local reading = string.sub(readings, i - 1, i - 1)
        kind[i], is_found[i] = false, reading ~= 'h'
        if reading == 'l' then
            local value = redis.pcall('GETRANGE', KEYS[i], 0, LOG_BYTES - 1)
            if type(value) == 'string' then
                read_state(i, value)
            end
        elseif reading == '-' then
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
    local at = nil
    local values
    if string.find(readings, '[lh]') then
        local names
        names, at = read_with_log_heads()
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

-- ---- a charge's state ----

-- Returns where the next one begins.
local function read_charge(j, batch, at)
    key[j], holds_key[j], rule_algorithm[j], rule_limit[j], rule_window[j], rule_tick[j], rule_extra[j], rule_cost[j], at =
        unpack_struct('<HHc1ddddd', batch, at)
    rule_lease[j], first_hold[j] = 0, -1
    if holds_key[j] > 0 then
        rule_lease[j], first_hold[j], at = unpack_struct('<dd', batch, at)
    end
    if not algorithm_of(rule_algorithm[j]) then
        error('unknown limit algorithm')
    end
    return at
end

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
        if kind[i] == 'l' then
            made.l.forget_moments(i)
        end
        if units > 0 then
            return it.advance(j, stamp_us[i], it.adopt(j, units))
        end
    end
    return it.advance(j)
end

-- What was changed is written in the end.
local function keep_state(j, it)
    local i = key[j]
    kind[i], stamp_us[i], state_a[i], state_b[i], state_c[i] = rule_algorithm[j], new_stamp[j], new_a[j], new_b[j], new_c[j]
    is_written[i] = true
    if it.keep then
        it.keep(j)
    end
end

-- In milliseconds, a second longer than anything counts, for clocks that drift.
local function ttl_text(i)
    return string.format('%.0f', math.ceil(math.max(ends_us[i] - now_us, 0) / 1000) + 1000)
end

local function write_states(with_ring)
    for i = 2, #KEYS do
        if is_written[i] then
            made[kind[i]].write(i, ttl_text(i))
        elseif (with_ring[i] or is_cut[i]) and ends_us[i] then
            made.l.cut(i, ttl_text(i))
        elseif is_found[i] and ends_us[i] and redis.call('PTTL', KEYS[i]) == -1 then
            redis.call('PEXPIRE', KEYS[i], ttl_text(i))
        end
    end
end
