--@fragment
-- token_bucket.lua: how many tokens are left, and when will there be enough? policies/token_bucket.c a second time.
-- A part of budget.lua, whose states, charges and list of functions it uses.
--
-- Value: 't' token, stamp_us, missing: parts of a token; parts below full at the stamp. a, b: token, missing.
local function token_bucket()
    local it = {}

    -- Tokens that can be missing: where more may be used than was held, another burst can be owed.
    local function most(j)
        if rule_lease[j] > 0 then
            return 2 * rule_extra[j]
        end
        return rule_extra[j]
    end

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
                missing = smaller(most(j), quotient_up(missing, part)) * token
            end
            missing = smaller(missing, most(j) * token)
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
        local free = rule_extra[j] * new_a[j] - new_b[j]
        if free <= 0 then
            return 0
        end
        return floor(free / new_a[j])
    end

    function it.room(j)
        return floor((most(j) * new_a[j] - new_b[j]) / new_a[j])
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
