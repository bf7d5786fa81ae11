--[[ unregister_broker_id: remove a broker that unregisters (104), as in 4.8: by its id, at any address
  KEYS[1] meta         HASH
  ARGV[1] who          |<brokerAddr>
  ARGV[2] broker_addr  its live info and filter servers are removed, whatever its id is; "" = no address
  ARGV[3] broker_name  "" = no id is removed
  ARGV[4] broker_id    decimal
  ARGV[5] cluster      as in the request, for the event; "" = that of the row
  ARGV[6] owner        the caller and his checked resources, see include/owner
  ARGV[7] said_ago_ms  how long ago the request was sent. If the broker at the address or the broker with the id
                       sent a heartbeat since then, nothing is removed
  ARGV[8] up_since     as the caller's last lease renewal returned it, see include/late; "" = it has no lease
  ARGV[9] renewed_ms   the time of that renewal
  DERIVED every table of the namespace
  RETURNS {"OK", seq, removed 0|1, other owner ("" = none)}
          {"LATE", seq}: one of the two brokers has come back (see said_ago_ms), and nothing was removed
          {"FOREIGN", seq, owner}: the broker belongs to another user, and nothing was removed
          {"ASK", seq, resource, ...}: nothing was removed, see include/owner
  EVENTS  broker_unregistered, at most two: one if the id was removed (with who if the address had the id), and one if
          the live info of the address was removed and the address did not have the id
  REPEAT  no effect      COST O(topics that lose write permission)
  SOURCE  RouteInfoManager.unregisterBroker (4.8.0). If the address is also in another row, Java leaves it
          there for ever, as only an address with live info expires. Here the address counts as not alive, but keeps its
          deadline: it is removed then, or when its channel closes ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/row_json"
--- @include "include/remove_who"
--- @include "include/owner"
--- @include "include/late"
local who, addr, name, id, cluster = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local live_key = P .. "live:" .. who
expect("hash", live_key, P .. "broker:" .. name)
check_who(who)
local row = hash(P .. "broker:" .. name)
local holder = row[id]
local function is_back(one)
  return heard_since(one, ARGV[7], ARGV[8], ARGV[9])
end
if is_back(who) or holder and is_back("|" .. holder) then
  return {"LATE", seq}
end

-- Which rows have the address after the id is removed?
local live, is_in_row, under_name = hash(live_key), false, false
if addr ~= "" and live.addr then
  for field in pairs(live) do
    if string.sub(field, 1, 5) == "name:" then
      local other = string.sub(field, 6)
      for other_id, value in pairs(hash(P .. "broker:" .. other)) do
        if value == addr and is_broker_id(other_id) and not (other == name and other_id == id) then
          is_in_row = true
          under_name = under_name or other == name
        end
      end
    end
  end
end

local caller, enforced = asked_by(ARGV[6])
if caller then
  local asks, fields = row.cluster and {"cluster:" .. row.cluster} or {}, {}
  for field in pairs(addr ~= "" and live or {}) do
    fields[#fields + 1] = field
  end
  names_in(asks, fields)
  if addr ~= "" and live.cluster then
    asks[#asks + 1] = "cluster:" .. live.cluster
  end
  asks = ask_for(ARGV[6], asks)
  if asks then
    return asks
  end
end
local owner = (addr ~= "" and foreign_at(caller, addr)) or (holder and foreign_at(caller, holder)) or nil
if owner and enforced then
  return {"FOREIGN", seq, owner}
end
if holder then
  remove_from_row(name, holder == addr and who or nil, holder, "broker_unregistered",
    cluster ~= "" and cluster or row.cluster)
end
if addr ~= "" and live.addr then
  local changed = 1
  if is_in_row then
    changed = call("HDEL", live_key, "digest", "n", "counter", "timestamp", "state_version")
      + call("DEL", P .. "filter:" .. who)
    if not under_name then
      changed = changed + call("HDEL", live_key, "name:" .. name)
    end
  else
    forget_who(who)
  end
  if changed > 0 and holder ~= addr then
    emit("broker_unregistered", ',"broker_name":' .. cjson.encode(name) .. ',"who":' .. cjson.encode(who)
      .. ',"cluster":' .. cjson.encode(live.cluster) .. ',"addr":' .. cjson.encode(addr))
  end
end
return {"OK", seq, holder and 1 or 0, owner or ""}
