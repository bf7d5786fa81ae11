--[[ channel_destroyed: a connection over which a broker registered has closed
  KEYS[1] meta       HASH
  ARGV[1] who        <cluster>|<brokerAddr>
  ARGV[2] front_end
  ARGV[3] channel    <worker incarnation>/<connection>
  ARGV[4] cause      why the broker counts as gone, for the event: it closed the connection, or may not send any more.
                     "" = the front end closed the connection for another reason, for example because it was idle
  ARGV[5] up_since   of the caller's last lease renewal, "" = there was none. If a gap (include/seen) began or ended
                     since then, this call may be late and the broker may be back: cause counts as ""
  DERIVED every table of the namespace
  RETURNS {"REMOVED", seq}: it was the last connection, the broker is removed
          {"KEPT", seq}: the broker may be alive; closed_at is set until its next heartbeat. If no front end has a
          connection of it, it must send a heartbeat soon (include/disconnected)
          {"STALE", seq}: this front end has no channel of the broker, or another channel; nothing happens
  EVENTS  broker_closed, one for each row that had the broker
  REPEAT  no effect      COST O(topics that lose write permission)
  SOURCE  RouteInfoManager.onChannelDestroy; docs/semantics.md 29-31, docs/differences.md D2, D3, D11, D33 ]]
--- @include "include/open"
--- @include "include/remove_who"
--- @include "include/disconnected"
--- @include "include/seen"
local who, key = ARGV[1], P .. "channels:" .. ARGV[1]
if call("HGET", key, ARGV[2]) ~= ARGV[3] then
  return {"STALE", seq}
end
local others, cause = call("HLEN", key) > 1, ARGV[4]
if gap_since(ARGV[5]) then
  cause = ""
end
if not others and cause ~= "" then
  remove_who(who, "broker_closed", cause)
  return {"REMOVED", seq}
end
check_who(who)
call("HSET", P .. "live:" .. who, "closed_at", int(now_ms), "closed_as", cause)
call("HDEL", key, ARGV[2])
call("SREM", P .. "held:" .. string.match(ARGV[3], "^[^/]*"), who)
if not others then
  disconnect(who)
end
return {"KEPT", seq}
