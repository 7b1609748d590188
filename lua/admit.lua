#!lua
-- admit.lua: which of these requests may pass, and what is left of their limits?
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2..] the limit keys, each once; what their values hold stands with each algorithm, and in holds.lua
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  the batch, packed little-endian without padding (policies/admit_wire.h), tuples in order of arrival:
--          double count of identical requests (>= 0; -1: as many as the last tuple with a count of its own let pass, of which it is a
--          shadow), byte number of charges; then each charge:
--          uint16 which of KEYS (2..) has its state, uint16 which of KEYS has its holds (0: it takes none), byte algorithm, doubles
--          limit, window_us, tick_us, extra, cost (>= 1); where it takes holds, doubles lease_us and serial of the first request's hold
--          (those of the others follow; -1: it is charged beside the holds of others)
--            's' sliding_window, 'l' sliding_log   extra: 0
--            't' token_bucket                      extra: burst
--            'f' fixed_window                      extra: 0 multiples of the window, 1 weeks, 2 months
--            'c' concurrency                       has no state but its holds: both indices are the same
--          The keys of one tuple are distinct. Every number is an integer that budget_tick() of policies/budget.h allows.
-- ARGV[4]  a byte for each limit key, in order: 'h' holds, 'l' where a charge of the batch is a sliding_log, else '-'
-- ARGV[5]  whose tokens the holds get (see holds.lua)
-- returns  {epoch, floor, more, {member, epoch, ...}, {numbers}}
--          numbers, for each tuple: how many of its count pass, then for each charge: units available, reset_us,
--          retry_after_us (0: one more of the same passes; -1: never, the cost is above the capacity; -2: holds alone keep it out,
--          and nobody knows when they end)
--          floor and the stamps are those since ARGV[2], and only filled (else 0, {}) where the epoch is above it; more is 1 where
--          there were too many: then everything older than the epoch counts as invalid.
--
-- This is policies/allowance.c and what is below it a second time, in doubles; tests/lua holds one to the other. Of a tuple's n
-- requests the first m pass, m the largest that every limit allows, and each limit is charged m times, or gives m holds; a batch
-- decides what its requests would one by one, whatever their algorithms. The server's clock is the only clock, and never runs backwards for a key.
-- A refusal writes nothing, except to repair: a key without TTL is given one; a state stamped by a clock that was far ahead is
-- taken into the present; a log whose limit has another algorithm now is cut to what that can know of it; holds that have ended are
-- dropped. Value and TTL are one step.
-- It is declared as one that writes: a demoted master refuses it, also where nothing would be written.

--@include epoch
--@include budget
--@include holds
local batch = ARGV[3]

-- ---- deciding ----

-- Units of charge j's limit that are neither charged nor held.
local function left(j, it)
    local units = it.available(j)
    if holds_key[j] > 0 then
        units = units - held_now(j)
    end
    if units < 0 then
        return 0
    end
    return units
end

-- Brings each charge's state to now; returns how many of `count` requests all of them allow.
local function weigh(charges, count)
    local passing = count
    for j = 1, charges do
        local it = made[rule_algorithm[j]]
        must_keep[j] = bring_to_now(j, it)
        passing = smaller(passing, floor(left(j, it) / rule_cost[j]))
    end
    return passing
end

-- When more becomes available, how long until one more of the same passes, and when nothing of the state counts any more.
local function stand(j, it)
    local cost, most = rule_cost[j], capacity(j)
    local others = holds_key[j] > 0 and held_now(j) or 0
    local free = it.available(j)
    local is_foreseen = free < cost or free - others >= cost
    if is_foreseen and others <= most - cost then
        rule_cost[j] = cost + others
    end
    local more, passes, ends = it.stand(j)
    rule_cost[j] = cost
    if cost > most then
        return more, -1, ends
    elseif not is_foreseen then
        return more, -2, ends
    end
    return more, passes and passes - now_us or 0, ends
end

-- Charges, or holds, what passes and appends to `numbers` how each limit stands afterwards.
local function conclude(charges, passing, numbers)
    local n = #numbers
    for j = 1, charges do
        local it = made[rule_algorithm[j]]
        local is_charged = passing > 0 and first_hold[j] < 0
        if is_charged then
            it.charge(j, passing * rule_cost[j])
        elseif passing > 0 then
            take_holds(j, passing)
        end
        if is_charged or must_keep[j] then
            keep_state(j, it)
        end
        local more, retry_us, ends = stand(j, it)
        ends_us[key[j]] = ends
        numbers[n + 1] = left(j, it)
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
            at = read_charge(j, batch, at)
        end
        local passing
        if count < 0 then
            passing = weigh(charges, passed)
        else
            passing = weigh(charges, count)
            passed = passing
        end
        numbers[#numbers + 1] = passing
        conclude(charges, passing, numbers)
    end
    return numbers
end

local epoch = epoch_now(KEYS[1], seen, now_us)
local with_ring = read_states()
local numbers = decide()
write_states(with_ring)
write_holds()
return with_news(KEYS[1], seen, epoch, numbers)
