#!lua flags=allow-oom
-- settle.lua: what becomes of these holds: do they go on, or end, and what is charged for them?
--
-- KEYS[1]  the tag table (see epoch.lua)
-- KEYS[2..] the limit keys, each once, as in admit.lua
-- ARGV[1]  now_us: for tests only; '' means the server's clock
-- ARGV[2]  the highest epoch the caller has seen (integer >= 0)
-- ARGV[3]  the batch, packed little-endian without padding (policies/admit_wire.h): for each hold its charge as in admit.lua, with
--          `cost` the units that it holds and `serial` its own, and then
--          double units to charge when it ends (>= 0); -1: it is renewed
-- ARGV[4]  a byte for each limit key, as in admit.lua
-- ARGV[5]  whose tokens they are (see holds.lua)
-- returns  {epoch, floor, more, {tag, epoch, ...}, {was it held 0|1, ...}}; the first four as in admit.lua
--
-- A hold that ends is dropped and its units are charged in the same step, also where they are more than it held or than its limit has
-- left. One that is not there (it was settled before, or has ended by its lease) charges nothing, so a batch that is sent twice
-- is done once. Renewing gives back a hold that the server has lost: the work is still being done. A server without memory to
-- spare is still told, because most of this frees some.

--@include epoch
--@include budget
--@include holds
local batch = ARGV[3]

-- As far as the state can count; what is above the limit is owed.
local function charge(units)
    local it = made[rule_algorithm[1]]
    local must_be_kept = bring_to_now(1, it)
    local owing = smaller(units, it.room(1))
    if owing > 0 then
        it.charge(1, owing)
    end
    if owing > 0 or must_be_kept then
        keep_state(1, it)
    end
    local _, _, ends = it.stand(1)
    ends_us[key[1]] = ends
end

local function finish(units)
    local i, name = holds_key[1], KEYS[holds_key[1]]
    if redis.call('ZREM', name, member_of(first_hold[1], rule_cost[1])) == 0 then
        return 0
    end
    held[i] = held[i] - rule_cost[1]
    is_changed[i] = true
    if units > 0 then
        charge(units)
    end
    return 1
end

local function renew()
    local i, name = holds_key[1], KEYS[holds_key[1]]
    local member = member_of(first_hold[1], rule_cost[1])
    local is_new = redis.call('ZADD', name, score_text(now_us + rule_lease[1]), member) == 1
    if is_new and rule_cost[1] > EXACT - held[i] then -- more than could be counted exactly
        redis.call('ZREM', name, member)
        return 0
    end
    longest_us[i] = math.max(longest_us[i] or 0, rule_lease[1])
    if is_new then
        held[i] = held[i] + rule_cost[1]
        is_changed[i] = true
        return 0
    end
    return 1
end

local function settle()
    local was_held, at, units = {}, 1, nil
    while at <= #batch do
        at = read_charge(1, batch, at)
        units, at = unpack_struct('<d', batch, at)
        held_now(1)
        if units < 0 then
            was_held[#was_held + 1] = renew()
        else
            was_held[#was_held + 1] = finish(units)
        end
    end
    return was_held
end

local epoch = epoch_now(KEYS[1], seen, now_us)
local with_ring = read_states()
local was_held = settle()
write_states(with_ring)
write_holds()
return with_news(KEYS[1], seen, epoch, was_held)
