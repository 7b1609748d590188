--@fragment
-- fixed_window.lua: what is left of a quota of the calendar? policies/fixed_window.c a second time.
-- A part of budget.lua, whose states, charges and list of functions it uses.
--
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

    function it.room(j)
        return EXACT - new_a[j]
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
