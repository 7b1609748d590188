#!lua flags=allow-oom
-- reset.lua: what a caller has used of a limit is forgotten.
--
-- KEYS[1]  the limit's state (see admit.lua), KEYS[2] its holds: those of requests under way come back as they are renewed
-- ARGV[1]  channel and ARGV[2] message that tell all nodes to forget what they remember of refusals
-- returns  1 where there was something to forget, else 0

redis.call('PUBLISH', ARGV[1], ARGV[2])
if redis.call('UNLINK', KEYS[1], KEYS[2]) > 0 then
    return 1
end
return 0
