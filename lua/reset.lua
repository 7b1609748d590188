#!lua flags=allow-oom
-- reset.lua: what a caller has used of a limit is forgotten.
--
-- KEYS[1]  the limit's state (see admit.lua)
-- ARGV[1]  channel and ARGV[2] message that tell all nodes to forget what they remember of refusals
-- returns  1 where there was something to forget, else 0

redis.call('PUBLISH', ARGV[1], ARGV[2])
return redis.call('UNLINK', KEYS[1])
