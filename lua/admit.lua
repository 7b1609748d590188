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
-- returns  {epoch, floor, more, {tag, epoch, ...}, {numbers}}
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

-- Value: 's' window_us, stamp_us, current, previous: units of the two windows of that length at the stamp. a, b, c: window_us,
-- current, previous. helper: ticks left of the window.
local function sliding_window()
    local it = {}

    function it.read(i, value)
        if #value ~= 33 then
            return
        end
        local _, window, s, c, p = unpack_struct('<c1i8i8i8i8', value)
        if window > 0 and window <= LAST_US and is_moment(s) and is_count(c) and is_count(p) then
            kind[i], stamp_us[i], state_a[i], state_b[i], state_c[i] = 's', s, window, c, p
        end
    end

    function it.remembered(i)
        return state_b[i] + state_c[i]
    end

    function it.write(i, ttl)
        local value = pack_struct('<c1i8i8i8i8', 's', state_a[i], stamp_us[i], state_b[i], state_c[i])
        redis.call('SET', KEYS[i], value, 'PX', ttl)
    end

    function it.adopt(j, units)
        return rule_window[j], units, 0
    end

    function it.advance(j, s, w, c, p)
        local limit, window, tick = rule_limit[j], rule_window[j], rule_tick[j]
        local ticks = window / tick
        local keep = false
        if not s then
            s, c, p = now_us, 0, 0
        elseif s > now_us + window then
            s, c, p, keep = now_us, smaller(limit, c + p), 0, true
        else
            if w ~= window then
                c, p = smaller(limit, c + p), 0
            end
            if s < now_us then
                local turns = floor(now_us / window) - floor(s / window)
                if turns == 1 then
                    c, p = 0, c
                elseif turns > 1 then
                    c, p = 0, 0
                end
                s = now_us
            end
            local most = floor((EXACT - 1) / ticks) -- what can be weighed exactly; never below the limit
            c, p = smaller(c, most), smaller(p, most)
        end
        new_stamp[j], new_a[j], new_b[j], new_c[j] = s, window, c, p
        helper[j] = ticks - floor(s % window / tick)
        return keep
    end

    function it.available(j)
        local limit, c, ticks = rule_limit[j], new_b[j], rule_window[j] / rule_tick[j]
        local free = (limit - c) * ticks - new_c[j] * helper[j]
        if c >= limit or free <= 0 then
            return 0
        end
        return floor(free / ticks)
    end

    function it.charge(j, units)
        new_b[j] = new_b[j] + units
    end

    function it.stand(j)
        local limit, cost, s, c, p = rule_limit[j], rule_cost[j], new_stamp[j], new_b[j], new_c[j]
        local window, tick = rule_window[j], rule_tick[j]
        local ticks, start = window / tick, s - s % window
        local ends = s + 2 * window
        if c + cost <= limit then
            local room = (limit - c - cost) * ticks
            if p * helper[j] <= room then
                return start + window, nil, ends
            end
            return start + window, start + (ticks - floor(room / p)) * tick, ends
        end
        -- In the next window, where `current` is the previous count; a cost above the limit is told apart by the caller.
        return start + window, start + window + (ticks - floor((limit - cost) * ticks / c)) * tick, ends
    end

    return it
end

-- Value: 't' token, stamp_us, missing: parts of a token; parts below full at the stamp. a, b: token, missing.
local function token_bucket()
    local it = {}

    function it.read(i, value)
        if #value ~= 25 then
            return
        end
        local _, token, s, missing = unpack_struct('<c1i8i8i8', value)
        if token > 0 and token < EXACT and is_moment(s) and is_count(missing) then
            kind[i], stamp_us[i], state_a[i], state_b[i] = 't', s, token, missing
        end
    end

    function it.remembered(i)
        return quotient_up(state_b[i], state_a[i])
    end

    function it.write(i, ttl)
        redis.call('SET', KEYS[i], pack_struct('<c1i8i8i8', 't', state_a[i], stamp_us[i], state_b[i]), 'PX', ttl)
    end

    function it.adopt(j, units)
        local token = rule_window[j] / rule_tick[j]
        return token, units * token, 0
    end

    function it.advance(j, s, part, missing)
        local limit, tick = rule_limit[j], rule_tick[j]
        local token = rule_window[j] / tick
        local keep = false
        if not s then
            s, missing = now_us, 0
        else
            if part ~= token then
                missing = smaller(rule_extra[j], quotient_up(missing, part)) * token
            end
            missing = smaller(missing, rule_extra[j] * token)
            if s > now_us + rule_window[j] then
                s, keep = now_us, true
            elseif s < now_us then
                local elapsed = floor(now_us / tick) - floor(s / tick)
                if elapsed < quotient_up(missing, limit) then -- so the product stays below what is missing
                    missing = missing - limit * elapsed
                else
                    missing = 0
                end
                s = now_us
            end
        end
        new_stamp[j], new_a[j], new_b[j], new_c[j] = s, token, missing, 0
        return keep
    end

    function it.available(j)
        return floor((rule_extra[j] * new_a[j] - new_b[j]) / new_a[j])
    end

    function it.charge(j, units)
        new_b[j] = new_b[j] + units * new_a[j]
    end

    -- The moment at which at most so many parts are missing.
    local function refilled_us(j, missing)
        local tick = rule_tick[j]
        return (floor(new_stamp[j] / tick) + quotient_up(new_b[j] - missing, rule_limit[j])) * tick
    end

    function it.stand(j)
        local burst, token, cost = rule_extra[j], new_a[j], rule_cost[j]
        local free = it.available(j)
        local more, passes = now_us, nil
        if new_b[j] > 0 then
            more = refilled_us(j, (burst - free - 1) * token)
        end
        if cost > free and cost <= burst then
            passes = refilled_us(j, (burst - cost) * token)
        end
        return more, passes, refilled_us(j, 0)
    end

    return it
end

-- Value: 'f' stamp_us, count: units of the stamp's window. a: count. helper: the end of the window.
local function fixed_window()
    local it = {}
    local DAY_US = 86400000000

    -- Days since 1970-01-01 of the first day of a month, counted from March 0000.
    local function first_day_of(march_months)
        local year = floor(march_months / 12)
        local month = march_months - 12 * year
        return 365 * year + floor(year / 4) - floor(year / 100) + floor(year / 400) + floor((153 * month + 2) / 5) - 719468
    end

    local function calendar_span(calendar, window, at)
        if calendar == 0 then
            local begin = at - at % window
            return begin, begin + window
        elseif calendar == 1 then -- 1970-01-05 was a Monday
            local begin = at - (at + 3 * DAY_US) % (7 * DAY_US)
            return begin, begin + 7 * DAY_US
        end
        local day = floor(at / DAY_US)
        local month = floor((day + 719468) * 4800 / 146097) -- as if all were of average length: one beside it at most
        while first_day_of(month) > day do
            month = month - 1
        end
        while first_day_of(month + 1) <= day do
            month = month + 1
        end
        return first_day_of(month) * DAY_US, first_day_of(month + 1) * DAY_US
    end

    function it.read(i, value)
        if #value ~= 17 then
            return
        end
        local _, s, count = unpack_struct('<c1i8i8', value)
        if is_moment(s) and count >= 0 and count <= EXACT then
            kind[i], stamp_us[i], state_a[i] = 'f', s, count
        end
    end

    function it.remembered(i)
        return state_a[i]
    end

    function it.write(i, ttl)
        redis.call('SET', KEYS[i], pack_struct('<c1i8i8', 'f', stamp_us[i], state_a[i]), 'PX', ttl)
    end

    function it.adopt(j, units)
        return units, 0, 0
    end

    function it.advance(j, s, count)
        local window = rule_window[j]
        local keep = false
        local begin, ends
        if s and s > now_us + window then
            s, count, keep = now_us, smaller(rule_limit[j], count), true
            begin, ends = calendar_span(rule_extra[j], window, now_us)
        elseif s and s > now_us then
            begin, ends = calendar_span(rule_extra[j], window, s)
        else
            begin, ends = calendar_span(rule_extra[j], window, now_us)
            if not s or s < begin then
                count = 0
            end
            s = now_us
        end
        new_stamp[j], new_a[j], new_b[j], new_c[j], helper[j] = s, count, 0, 0, ends
        return keep
    end

    function it.available(j)
        if new_a[j] >= rule_limit[j] then
            return 0
        end
        return rule_limit[j] - new_a[j]
    end

    function it.charge(j, units)
        new_a[j] = new_a[j] + units
    end

    function it.stand(j)
        local ends = helper[j]
        if rule_cost[j] <= it.available(j) then
            return ends, nil, ends
        end
        return ends, ends, ends
    end

    return it
end

-- Value: 'l' last_us, oldest_us, 32 bits each: total, base, count, first, room; then the ring. The last run (moment, units admitted up
-- to it), the moment of the oldest, the units admitted before the oldest, and `count` older runs in a ring of `room` places of 12 bytes
-- each (64 bits moment, 32 bits total), the oldest in place `first`. Only what changed of it is read and written. It ends with
-- the last place that was ever used. a, b: total, base. helper: the key's time.
local function sliding_log()
    local it = {}
    local LOG, RUN, RUN_BYTES = '<c1i8i8I4I4I4I4I4', '<i8I4', 12
    local LOG_FIRST_ROOM, LOG_MOST_ROOM, LOG_MOST_UNITS = 4, 1048576, 1000000
    local log_oldest, log_count, log_first, log_room = {}, {}, {}, {}
    local new_oldest, new_count, new_first, new_room = {}, {}, {}, {}
    -- The moment and total of a run that this script adds to the ring: one at most, because all of it is admitted now.
    local pushed_us, pushed_total = {}, {}

    function it.read(i, value)
        if #value < LOG_BYTES then
            return
        end
        local _, last, oldest, total, base, count, first, room = unpack_struct(LOG, value)
        local units = (total - base) % U32
        if is_moment(last) and oldest >= 0 and oldest <= last and units <= LOG_MOST_UNITS and count <= room and count <= units and
            room <= LOG_MOST_ROOM and (first < room or room == 0) then
            kind[i], stamp_us[i], state_a[i], state_b[i] = 'l', last, total, base
            log_oldest[i], log_count[i], log_first[i], log_room[i] = oldest, count, first, room
        end
    end

    function it.remembered(i)
        return (state_a[i] - state_b[i]) % U32
    end

    function it.keep(j)
        local i = key[j]
        log_oldest[i], log_count[i], log_first[i], log_room[i] = new_oldest[j], new_count[j], new_first[j], new_room[j]
        if new_count[j] == 0 then
            pushed_us[i] = nil
        end
    end

    -- The moment and total of the n-th run, counted from the oldest, 0; the `count`-th is the last one. nil: the value is broken.
    local function run_at(j, n)
        local i, count = key[j], new_count[j]
        if n == count then
            return new_stamp[j], new_a[j]
        end
        if n == count - 1 and pushed_us[i] then
            return pushed_us[i], pushed_total[i]
        end
        local from = LOG_BYTES + RUN_BYTES * ((new_first[j] + n) % new_room[j])
        local run = redis.call('GETRANGE', KEYS[i], from, from + RUN_BYTES - 1)
        if #run == RUN_BYTES then
            local at, total = unpack_struct(RUN, run)
            if at >= 0 and at <= new_stamp[j] and (total - new_b[j]) % U32 <= (new_a[j] - new_b[j]) % U32 then
                return at, total
            end
        end
        return nil
    end

    -- The first run that is younger than after_us and up to which so many units were admitted; both hold for all later ones and for
    -- the last. In strides that double, then by halves. nil: the value is broken.
    local function search(j, after_us, units)
        local count, base = new_count[j], new_b[j]
        local low, stride = 0, 1
        while low < count do
            local at, total = run_at(j, low + stride - 1)
            if not at then
                return nil
            end
            if at > after_us and (total - base) % U32 >= units then
                break
            end
            low = low + stride
            stride = smaller(2 * stride, count - low)
        end
        if low >= count then
            return count
        end
        local high = low + stride - 1
        while low < high do
            local middle = floor((low + high) / 2)
            local at, total = run_at(j, middle)
            if not at then
                return nil
            end
            if at > after_us and (total - base) % U32 >= units then
                high = middle
            else
                low = middle + 1
            end
        end
        return low
    end

    local function forget_all(j)
        new_b[j], new_count[j], new_first[j] = new_a[j], 0, 0
    end

    local function forget_ended(j, ended_us)
        if new_stamp[j] <= ended_us then
            forget_all(j)
            return
        end
        if new_count[j] == 0 or new_oldest[j] > ended_us then
            return
        end
        local ended = search(j, ended_us, 0)
        local at, total, oldest
        if ended then
            oldest = run_at(j, ended)
            at, total = run_at(j, ended - 1)
        end
        if not at or not oldest then
            forget_all(j)
            return
        end
        new_b[j] = total
        new_first[j] = (new_first[j] + ended) % new_room[j]
        new_count[j] = new_count[j] - ended
        new_oldest[j] = oldest
    end

    function it.adopt(j, units)
        return units, 0, 0
    end

    function it.advance(j, s, total, base)
        local i, window = key[j], rule_window[j]
        if kind[i] == 'l' then
            new_oldest[j], new_count[j], new_first[j], new_room[j] = log_oldest[i], log_count[i], log_first[i], log_room[i]
        else
            new_oldest[j], new_count[j], new_first[j], new_room[j] = 0, 0, 0, 0
        end
        new_c[j], helper[j] = 0, now_us
        if not s or total == base then
            new_stamp[j], new_a[j], new_b[j], new_count[j], new_first[j] = 0, 0, 0, 0, 0
            return false
        end
        if s > now_us + window then
            new_stamp[j], new_a[j], new_b[j] = now_us, smaller(rule_limit[j], (total - base) % U32), 0
            new_count[j], new_first[j] = 0, 0
            return true
        end
        if s > now_us then
            helper[j] = s
        end
        new_stamp[j], new_a[j], new_b[j] = s, total, base
        forget_ended(j, helper[j] - window)
        return false
    end

    function it.available(j)
        local counted = (new_a[j] - new_b[j]) % U32
        if counted >= rule_limit[j] then
            return 0
        end
        return rule_limit[j] - counted
    end

    function it.charge(j, units)
        local i = key[j]
        if new_a[j] ~= new_b[j] and new_stamp[j] ~= helper[j] then -- a run of its own; the last one goes into the ring
            if new_count[j] == 0 then
                new_oldest[j] = new_stamp[j]
            end
            new_count[j] = new_count[j] + 1
            pushed_us[i], pushed_total[i] = new_stamp[j], new_a[j]
        end
        new_stamp[j], new_a[j] = helper[j], (new_a[j] + units) % U32
    end

    function it.stand(j)
        local limit, cost, window = rule_limit[j], rule_cost[j], rule_window[j]
        local counted = (new_a[j] - new_b[j]) % U32
        if counted == 0 then
            return now_us, nil, now_us
        end
        local ends = new_stamp[j] + window
        local more = ends
        if new_count[j] > 0 then
            more = new_oldest[j] + window
        end
        local surplus = counted + cost - limit -- so many of the oldest units must end
        if surplus <= 0 then
            return more, nil, ends
        elseif surplus == 1 then
            return more, more, ends -- the oldest run has one
        end
        local decisive = search(j, -1, surplus)
        local at = decisive and run_at(j, decisive)
        return more, (at or new_stamp[j]) + window, ends
    end


    local function log_head(i, base, count, first, room)
        local oldest_us = count > 0 and log_oldest[i] or stamp_us[i]
        return pack_struct(LOG, 'l', stamp_us[i], oldest_us, state_a[i], base, count, first, room)
    end

    -- A ring that is full moves to twice the room; only then is all of it touched.
    local function write_larger_log(i, ttl)
        local name, older, first, room = KEYS[i], log_count[i] - 1, log_first[i], log_room[i]
        local runs = ''
        if older > 0 then
            local straight = smaller(older, room - first)
            runs = redis.call('GETRANGE', name, LOG_BYTES + RUN_BYTES * first, LOG_BYTES + RUN_BYTES * (first + straight) - 1)
            if straight < older then
                runs = runs .. redis.call('GETRANGE', name, LOG_BYTES, LOG_BYTES + RUN_BYTES * (older - straight) - 1)
            end
        end
        if #runs ~= RUN_BYTES * older then -- broken: all that is known to count, counts as admitted now
            redis.call('SET', name, log_head(i, state_b[i], 0, 0, 0), 'PX', ttl)
            return
        end
        redis.call('SET', name, log_head(i, state_b[i], log_count[i], 0, math.max(LOG_FIRST_ROOM, 2 * room)) .. runs ..
                       pack_struct(RUN, pushed_us[i], pushed_total[i]), 'PX', ttl)
    end

    function it.write(i, ttl)
        local name, count, room = KEYS[i], log_count[i], log_room[i]
        if count == 0 then
            redis.call('SET', name, log_head(i, state_b[i], 0, 0, 0), 'PX', ttl)
        elseif count > room then
            write_larger_log(i, ttl)
        else
            if pushed_us[i] then
                local place = (log_first[i] + count - 1) % room
                redis.call('SETRANGE', name, LOG_BYTES + RUN_BYTES * place, pack_struct(RUN, pushed_us[i], pushed_total[i]))
            end
            redis.call('SETRANGE', name, 0, log_head(i, state_b[i], count, log_first[i], room))
            redis.call('PEXPIRE', name, ttl)
        end
    end

    -- A log whose ring was read for a limit that is none loses it, else every refusal would read it again.
    function it.cut(i, ttl)
        redis.call('SET', KEYS[i], log_head(i, state_b[i], 0, 0, 0), 'PX', ttl)
    end

    return it
end

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
