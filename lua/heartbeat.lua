--[[ heartbeat: if a registration equals the broker's last one, store it as a heartbeat
  KEYS[1] meta         HASH
  ARGV[1] who          <cluster>|<brokerAddr>; with compat 4.8, where the address alone counts, |<brokerAddr>
  ARGV[2] cluster      as in who
  ARGV[3] broker_name
  ARGV[4] broker_id    decimal
  ARGV[5] digest       of header, client version and raw body
  ARGV[6] front_end
  ARGV[7] channel      <worker incarnation>/<connection>@b<opened_ms>, "" = none
  ARGV[8] bytes        size of the body
  ARGV[9] owner        the caller, see include/owner. If another user sent the last registration, or the right for the
                       row's cluster was not checked, the answer is DIFF
  DERIVED live:<who>, beat:<who>, deadlines, channels:<who>, broker:<brokerName>, heartbeats, held:, leases
  RETURNS {"SAME", seq, masterAddr, haServerAddr}
          {"DIFF", seq, n, counter, timestamp, stateVersion, another body than last time 0|1}: decode it, and call
          register_broker with this n. n "0" and an empty data version: the broker is not known
  EVENTS  none (an entry on heartbeats)
  REPEAT  the same answer      COST O(1)
  SOURCE  RouteInfoManager.registerBroker, for the case in which it changes nothing ]]
--- @include "include/open"
--- @include "include/liveness"
--- @include "include/master_of"
--- @include "include/heard"
--- @include "include/owner"
local who = ARGV[1]
local live = call("HMGET", P .. "live:" .. who,
  "digest", "rev", "config_rev", "timeout_ms", "update_ms", "n", "counter", "timestamp", "state_version",
  "closed_at", "user")
local row = call("HMGET", P .. "broker:" .. ARGV[3], "rev", "cluster")
local rev, is_new_body = row[1], live[1] ~= ARGV[5] and 1 or 0
if is_new_body == 1 or not rev or live[2] ~= rev or live[3] ~= config_rev or not live[7] then
  return {"DIFF", seq, live[6] or "0", live[7] or "", live[8] or "", live[9] or "", is_new_body}
end
local caller = asked_by(ARGV[9])
if caller and ((live[11] or "") ~= (caller ~= "" and live[6] .. " " .. caller or "")
  or ask_for(ARGV[9], {"cluster:" .. (row[2] or "")})) then -- register_broker replies ASK for this right
  return {"DIFF", seq, live[6], live[7], live[8], live[9], 0}
end
check_liveness(who, ARGV[7])
local master_addr, ha_server_addr = master_of(ARGV[2], ARGV[3], ARGV[4])
refresh(who, tonumber(live[4]), live[10], live[5])
attach(who, ARGV[6], ARGV[7], false)
heard(who, ARGV[3], ARGV[6], "same", live[5], ARGV[8])
return {"SAME", seq, master_addr, ha_server_addr}
