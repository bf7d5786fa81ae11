--[[ reap_worker: clean up after worker processes whose lease ran out
  KEYS[1] meta       HASH
  ARGV[1] limit      int   the most channel entries that this call deletes, 1..1000
  ARGV[2] sweeper    the id of the caller, "" = it writes no status
  ARGV[3] process    its status (JSON, include/processes)
  DERIVED channels:<who>, held:, lease:, leases, releases, live:<who>, disconnected, processes, peers
  RETURNS {seq, more 0|1, reaped entries}
  EVENTS  none: no broker is removed here
  REPEAT  no effect      COST O(workers + processes + limit)
  SOURCE  No worker is reaped in a gap (include/seen), nor within SETTLE_MS after a gap: every worker needs time to
          renew its lease. For front ends "direct:..." see include/give_up ]]
--- @include "include/open"
--- @include "include/give_up"
--- @include "include/seen"
--- @include "include/processes"
check_processes()
local SETTLE_MS = 10000
local limit, entries, more = math.min(1000, tonumber(ARGV[1])), 0, false
local incarnations = {}
if heard and now_ms >= up_since + SETTLE_MS then
  incarnations = call("SMEMBERS", P .. "leases")
end
for i = 1, #incarnations do
  local incarnation = incarnations[i]
  if call("EXISTS", P .. "lease:" .. incarnation) == 0 then
    local taken
    taken, more = give_up(incarnation, limit - entries)
    entries = entries + taken
    if more then
      break
    end
    call("SREM", P .. "leases", incarnation)
  end
end
if ARGV[2] ~= "" then
  tell_process(ARGV[2], ARGV[3])
  forget_old_processes()
end
return {seq, more and 1 or 0, entries}
