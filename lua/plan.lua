#!lua flags=allow-oom
-- plan.lua: which plan has a caller? Or: from now on it is this one, or none.
--
-- KEYS[1]  the caller's hash, of which the field `plan` is ours; whoever sells plans may write it as well, with one HSET
-- ARGV[1]  get, set or del
-- ARGV[2]  the plan's name, for `set`
-- returns  get: {name or nil, milliseconds that the hash still lasts (-1: for ever, -2: it is not there)}
--          set, del: 1 where the caller had a plan before, else 0
--
-- A plan that is set here lasts until it is changed: a TTL that the hash may have had (a trial that ends) is taken away. Other
-- fields of the hash are left alone.
-- It is declared as one that writes: a demoted master must not be asked who has paid.

if ARGV[1] == 'get' then
    return {redis.call('HGET', KEYS[1], 'plan'), redis.call('PTTL', KEYS[1])}
end
local had = redis.call('HEXISTS', KEYS[1], 'plan')
if ARGV[1] == 'del' then
    redis.call('HDEL', KEYS[1], 'plan')
else
    redis.call('HSET', KEYS[1], 'plan', ARGV[2])
    redis.call('PERSIST', KEYS[1])
end
return had
