--[[ renew_lease: renew the lease of a worker process, and return the state of the registry
  KEYS[1] meta         HASH
  ARGV[1] incarnation  random, of this worker process
  ARGV[2] lease_ms     int
  ARGV[3] process      its status (JSON, include/processes), "" = the old status stays
  ARGV[4] peers        the addresses of its brokers' connections (JSON), "" = the old addresses stay
  DERIVED lease:<incarnation>, leases, processes, peers, seen_ms and up_since in meta; after a gap also the keys deadlines
          and disconnected
  RETURNS {epoch, seq, config_rev, up_since, now, lost 0|1, first deadline (ms, "" = no broker), auth_revision, chain
          (of the event with this seq), lost_ms, losses}; lost: the lease had run out (or is new), and the caller must attach its
          channels again. auth_revision: of the policy (read_auth). lost_ms, losses: see init_namespace, restore_changes
  EVENTS  none
  REPEAT  the same      COST O(1), and the length of peers; after a gap O(brokers); when lost O(processes) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/keep_seen"
--- @include "include/processes"
expect("set", P .. "leases")
expect("zset", P .. "deadlines")
check_processes()
keep_seen()
local key = P .. "lease:" .. ARGV[1]
local lost = 1 - call("EXISTS", key)
call("SET", key, int(now_ms), "PX", ARGV[2])
call("SADD", P .. "leases", ARGV[1])
if lost == 1 then
  forget_old_processes()
end
if ARGV[3] ~= "" then
  tell_process(ARGV[1], ARGV[3])
end
if ARGV[4] ~= "" then
  tell_peers(ARGV[1], ARGV[4])
end
local first = call("ZRANGE", P .. "deadlines", 0, 0, "WITHSCORES")
local kept = call("HMGET", KEYS[1], "auth_revision", "chain", "lost_ms", "losses")
return {epoch, seq, config_rev, int(up_since), int(now_ms), lost, first[2] or "", kept[1] or "0", kept[2] or epoch,
  kept[3] or "0", kept[4] or "0"}
