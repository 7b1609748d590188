--@fragment
-- holds.lua: which units of a limit are provisionally taken, by whom, and until when? policies/holds.c a second time.
-- Included after budget.lua by the scripts whose ARGV[5] is the owner of the tokens: 16 hexadecimal digits.
--
-- Value: a ZSET with a member "<owner> <serial> <units>" for each hold, scored with the moment at which it ends (us), and
-- "!held", scored with minus the units of all of them, so that it comes first. What is no such ZSET is removed. A key that holds nothing
-- does not exist.
local owner = ARGV[5]
local MOST_WORDS = 2000 -- that one command is given

-- By index in KEYS; nil: not looked at yet. lease_us: of the last charge that looked. taken: scores and members still to be
-- written; longest_us: the longest lease among them.
local held, was_there, lease_us, taken, longest_us, is_changed = {}, {}, {}, {}, {}, {}

local function units_of(member)
    return tonumber(string.match(member, ' (%d+)$') or 0)
end

-- What has ended does not count and is dropped, once. Returns its units.
local function drop_ended(name)
    local units, ended = 0, nil
    repeat
        ended = redis.call('ZRANGEBYSCORE', name, '(0', score_text(now_us), 'LIMIT', 0, MOST_WORDS)
        for n = 1, #ended do
            units = units + units_of(ended[n])
        end
        redis.call('ZREMRANGEBYRANK', name, 1, #ended)
    until #ended < MOST_WORDS
    return units
end

-- Units held under the key of charge j, as this script has changed them.
local function held_now(j)
    local i = holds_key[j]
    lease_us[i] = rule_lease[j]
    if held[i] then
        return held[i]
    end
    local first = redis.pcall('ZRANGE', KEYS[i], 0, 1, 'WITHSCORES')
    held[i], was_there[i], taken[i] = 0, false, {}
    if #first == 4 and first[1] == '!held' then
        held[i], was_there[i] = -tonumber(first[2]), true
        if tonumber(first[4]) <= now_us then
            held[i] = held[i] - drop_ended(KEYS[i])
            is_changed[i] = true
        end
    elseif first.err or #first > 0 then
        redis.call('UNLINK', KEYS[i])
    end
    return held[i]
end

local function member_of(serial, units)
    return string.format('%s %.0f %.0f', owner, serial, units)
end

-- Holds of so many requests of charge j, in one go with all others of their key at the end.
local function take_holds(j, count)
    local i = holds_key[j]
    local list, ends = taken[i], score_text(now_us + rule_lease[j])
    for n = 0, count - 1 do
        list[#list + 1] = ends
        list[#list + 1] = member_of(first_hold[j] + n, rule_cost[j])
    end
    held[i] = held[i] + count * rule_cost[j]
    longest_us[i] = math.max(longest_us[i] or 0, rule_lease[j])
    is_changed[i] = true
end

local function write_taken(name, list)
    for from = 1, #list, MOST_WORDS do
        redis.call('ZADD', name, unpack(list, from, math.min(from + MOST_WORDS - 1, #list)))
    end
end

-- A second longer than its last hold lasts, for clocks that drift. Without a TTL it counts as one without end, which GT leaves alone.
local function extend_ttl(i)
    local ttl = string.format('%.0f', math.ceil(longest_us[i] / 1000) + 1000)
    if was_there[i] and (redis.call('PEXPIRE', KEYS[i], ttl, 'GT') == 1 or redis.call('PTTL', KEYS[i]) ~= -1) then
        return
    end
    redis.call('PEXPIRE', KEYS[i], ttl)
end

local function write_holds()
    for i, units in pairs(held) do
        if units == 0 then
            if was_there[i] then
                redis.call('UNLINK', KEYS[i])
            end
        else
            if is_changed[i] then
                local list = taken[i]
                list[#list + 1] = score_text(-units)
                list[#list + 1] = '!held'
                write_taken(KEYS[i], list)
            end
            if longest_us[i] then
                extend_ttl(i)
            elseif redis.call('PTTL', KEYS[i]) == -1 then
                longest_us[i] = lease_us[i]
                extend_ttl(i)
            end
        end
    end
end
