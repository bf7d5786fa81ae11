--[[ renew_lease: a worker process says that it lives, and hears where the registry stands
  KEYS[1] meta         HASH
  ARGV[1] incarnation  random, of this worker process
  ARGV[2] lease_ms     int
  DERIVED lease:<incarnation>, leases, seen_ms and up_since in meta
  RETURNS {epoch, seq, config_rev, up_since, now, lost 0|1}; lost: the lease had run out (or is new), and
          the caller must attach its channels again
  EVENTS  none
  REPEAT  the same      COST O(1) ]]
--- @include "include/open"
--- @include "include/keep_seen"
local up_since = keep_seen()
local key = P .. "lease:" .. ARGV[1]
local lost = 1 - call("EXISTS", key)
call("SET", key, int(now_ms), "PX", ARGV[2])
call("SADD", P .. "leases", ARGV[1])
return {epoch, seq, config_rev, int(up_since), int(now_ms), lost}
