--[[ release_channels: delete the channels of a worker that ends, then its lease and status
  A sweeper that ends deletes its status with it. After Redis lost changes, a worker that goes on deletes the channels
  that Redis has for it, before it attaches the channels that it really has.
  KEYS[1] meta         HASH
  ARGV[1] incarnation  of the worker, or the sweeper's id
  ARGV[2] limit        int   the most channel entries that this call deletes, 1..1000
  ARGV[3] ends         "1": the process ends, and its lease and status are deleted, too; "0": it goes on
  DERIVED channels:<who>, held:, lease:, leases, releases, live:<who>, disconnected, processes, peers
  RETURNS {seq, more 0|1}
  EVENTS  none: no broker is removed here
  REPEAT  no effect      COST O(limit) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/give_up"
--- @include "include/processes"
expect("set", P .. "leases", P .. "held:" .. ARGV[1])
check_processes()
local _, more = give_up(ARGV[1], tonumber(ARGV[2]))
if not more and ARGV[3] == "1" then
  call("DEL", P .. "lease:" .. ARGV[1])
  call("SREM", P .. "leases", ARGV[1])
  forget_process(ARGV[1])
end
return {seq, more and 1 or 0}
