--[[ touch_broker: a heartbeat without registration (322, 904)
  KEYS[1] meta       HASH
  ARGV[1] who        <cluster>|<brokerAddr>
  ARGV[2] front_end
  ARGV[3] channel    <worker incarnation>/<connection>, "" = none
  ARGV[4] bytes      size of the body
  ARGV[5] version    "" = any; else "<counter> <timestamp> <stateVersion>", which the broker must have
  ARGV[6] owner      the caller and his checked resources, see include/owner
  DERIVED live:<who>, beat:<who>, deadlines, channels:<who>, heartbeats, held:, leases
  RETURNS {"OK", seq, counter, timestamp, stateVersion, other owner ("" = none)}; {"UNKNOWN", seq}: nothing was refreshed
          {"OTHER", seq, counter, timestamp, stateVersion}: nothing was refreshed, the broker has this other version
          {"FOREIGN", seq, owner}: nothing was refreshed, the broker belongs to another user
          {"ASK", seq, resource, ...}: nothing was refreshed, see include/owner
  EVENTS  none (an entry on heartbeats)
  REPEAT  the same answer      COST O(1)
  SOURCE  DefaultRequestProcessor.queryBrokerTopicConfig, brokerHeartbeat ]]
--- @include "include/open"
--- @include "include/liveness"
--- @include "include/heard"
--- @include "include/owner"
local who = ARGV[1]
local live = call("HMGET", P .. "live:" .. who, "timeout_ms", "update_ms", "counter", "timestamp", "state_version",
  "closed_at", "user", "n", "cluster")
if not live[3] then
  return {"UNKNOWN", seq}
end
local caller, enforced = asked_by(ARGV[6])
if caller then
  local asks = {"cluster:" .. (live[9] or "")}
  if live[7] ~= (live[8] or "") .. " " .. caller then
    names_in(asks, call("HKEYS", P .. "live:" .. who))
  end
  asks = ask_for(ARGV[6], asks)
  if asks then
    return asks
  end
end
local owner = foreign(caller, live[7], live[8])
if owner and enforced then
  return {"FOREIGN", seq, owner}
end
if ARGV[5] ~= "" and ARGV[5] ~= live[3] .. " " .. live[4] .. " " .. live[5] then
  return {"OTHER", seq, live[3], live[4], live[5]}
end
check_liveness(who, ARGV[3])
refresh(who, tonumber(live[1]), live[6], live[2])
-- true: after a restart a front end gets channels of brokers that only send heartbeats; an existing channel stays
attach(who, ARGV[2], ARGV[3], true)
heard(who, "", ARGV[2], "touch", live[2], ARGV[4])
return {"OK", seq, live[3], live[4], live[5], owner or ""}
