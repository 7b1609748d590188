--@fragment
-- sliding_log.lua: what is left of a limit, exactly? policies/sliding_log.c a second time; the ring stays in Redis.
-- A part of budget.lua, whose states, charges and list of functions it uses.
--
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

    function it.room(j)
        return LOG_MOST_UNITS - (new_a[j] - new_b[j]) % U32
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

    -- What another algorithm was asked of counts as admitted at its last admission from then on, whatever comes of it.
    function it.forget_moments(i)
        if log_count[i] > 0 then
            log_count[i], log_first[i], pushed_us[i] = 0, 0, nil
            is_cut[i] = true
        end
    end

    -- And the ring goes, else every refusal would read it again. The log lives for as long as it would have.
    function it.cut(i, ttl)
        local left = redis.call('PTTL', KEYS[i])
        if left > 0 then
            ttl = string.format('%.0f', left)
        end
        redis.call('SET', KEYS[i], log_head(i, state_b[i], 0, 0, 0), 'PX', ttl)
    end

    return it
end
