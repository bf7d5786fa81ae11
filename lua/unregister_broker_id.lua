--[[ unregister_broker_id: a broker says goodbye (104), as 4.8 takes it: the id goes, whatever address has it
  KEYS[1] meta         HASH
  ARGV[1] who          |<brokerAddr>
  ARGV[2] broker_addr  its live info and its filter servers go, whatever id it has; "" = nobody's
  ARGV[3] broker_name  "" = no id goes
  ARGV[4] broker_id    decimal
  ARGV[5] cluster      as the broker says it, for the event; "" = that of the row
  DERIVED every table of the namespace
  RETURNS {"OK", seq, removed 0|1}
  EVENTS  broker_unregistered: for the id that went (without who, if another address had it), and for the live info
          of an address that had not this id
  REPEAT  no effect      COST O(topics of a name that goes)
  SOURCE  RouteInfoManager.unregisterBroker (4.8.0). Java leaves an address that keeps its place in a row without
          live info there for ever: here it counts as not alive, and goes when its deadline comes or its channel ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/in_chunks"
--- @include "include/row_json"
--- @include "include/emptied"
--- @include "include/queue_data"
--- @include "include/emit_topics"
--- @include "include/remove_who"
local who, addr, name, id, cluster = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local row, live_key = hash(P .. "broker:" .. name), P .. "live:" .. who
local holder = row[id]
expect("hash", live_key)
check_who(who)
if holder then
  remove_from_row(name, holder == addr and who or nil, holder, "broker_unregistered",
    cluster ~= "" and cluster or row.cluster)
end
local live, stands = hash(live_key), false
if addr ~= "" and live.addr then
  for field in pairs(live) do
    if string.sub(field, 1, 5) == "name:" then
      local at = hash(P .. "broker:" .. string.sub(field, 6))
      local here = false
      for other, value in pairs(at) do
        here = here or (is_broker_id(other) and value == addr)
      end
      if not here and field == "name:" .. name then
        call("HDEL", live_key, field)
      end
      stands = stands or here
    end
  end
  local changed = 1
  if stands then
    changed = call("HDEL", live_key, "digest", "n", "counter", "timestamp", "state_version")
      + call("DEL", P .. "filter:" .. who)
  else
    forget_who(who)
  end
  if changed > 0 and holder ~= addr then
    emit("broker_unregistered", ',"broker_name":' .. cjson.encode(name) .. ',"who":' .. cjson.encode(who)
      .. ',"cluster":' .. cjson.encode(live.cluster) .. ',"addr":' .. cjson.encode(addr))
  end
end
return {"OK", seq, holder and 1 or 0}
