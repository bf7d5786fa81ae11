--[[ channel_destroyed: a connection that a broker registered over is gone
  KEYS[1] meta       HASH
  ARGV[1] who        <cluster>|<brokerAddr>
  ARGV[2] front_end
  ARGV[3] channel    <worker incarnation>/<connection>
  DERIVED every table of the namespace
  RETURNS {"REMOVED", seq}: it was the last one, the broker is gone
          {"KEPT", seq}: another front end has a connection still; closed_at is set, any later beat clears it
          {"STALE", seq}: not the connection of the last registration; nothing happens
  EVENTS  broker_closed, one for each place it stood in
  REPEAT  no effect      COST O(topics that lose write permission)
  SOURCE  RouteInfoManager.onChannelDestroy; docs/semantics.md 29-31, docs/differences.md D2, D3, D11 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/row_json"
--- @include "include/collect"
--- @include "include/rest"
--- @include "include/queue_data"
--- @include "include/emit_topics"
--- @include "include/wiping"
--- @include "include/topic_sets"
--- @include "include/remove_who"
local who, key = ARGV[1], P .. "channels:" .. ARGV[1]
if call("HGET", key, ARGV[2]) ~= ARGV[3] then
  return {"STALE", seq}
end
if call("HLEN", key) > 1 then
  check_who(who)
  call("HSET", P .. "live:" .. who, "closed_at", int(now_ms))
  call("HDEL", key, ARGV[2])
  call("SREM", P .. "held:" .. string.match(ARGV[3], "^[^/]*"), who)
  return {"KEPT", seq}
end
remove_who(who, "broker_closed")
return {"REMOVED", seq}
