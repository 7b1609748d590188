--@fragment
-- sliding_window.lua: what is left of a limit that weighs two windows? policies/sliding_window.c a second time.
-- A part of budget.lua, whose states, charges and list of functions it uses.
--
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

    function it.room(j)
        local most = floor((EXACT - 1) / (rule_window[j] / rule_tick[j]))
        if new_b[j] >= most then
            return 0
        end
        return most - new_b[j]
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
