--[[ unregister_broker: remove a broker that unregisters (104)
  KEYS[1] meta         HASH
  ARGV[1] cluster      as in the request
  ARGV[2] broker_addr
  ARGV[3] broker_name
  ARGV[4] owner        the caller and his checked resources, see include/owner
  ARGV[5] said_ago_ms  how long ago the request was sent. A broker that sent a heartbeat since then stays
  ARGV[6] up_since     as the caller's last lease renewal returned it, see include/late; "" = it has no lease
  ARGV[7] renewed_ms   the time of that renewal
  DERIVED every table of the namespace
  RETURNS {"OK", seq, removed 0|1, other owner ("" = none)}
          {"LATE", seq}: the broker has come back; nothing was removed
          {"FOREIGN", seq, owner}: the broker belongs to another user, and nothing was removed
          {"ASK", seq, resource, ...}: nothing was removed, see include/owner
  EVENTS  broker_unregistered: one for the row that had it, one for each cluster under which it was alive;
          write_perm_set: if the row did not have it, but has no master while acting masters are enabled
  REPEAT  no effect      COST O(topics that lose write permission)
  SOURCE  RouteInfoManager.unRegisterBroker (5.x: by address, with any id); docs/differences.md D4: a wrong cluster in
          the request leaves no dead address in a row ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/row_json"
--- @include "include/emit_topics"
--- @include "include/wiping"
--- @include "include/remove_who"
--- @include "include/owner"
--- @include "include/late"
local cluster, addr, name = ARGV[1], ARGV[2], ARGV[3]
local row = hash(P .. "broker:" .. name)
local is_in_row, master = false, false
for field, value in pairs(row) do
  if is_broker_id(field) then
    is_in_row = is_in_row or value == addr
    master = master or tonumber(field) <= 0
  end
end
local whos, clusters_of = {cluster .. "|" .. addr}, {cluster}
if is_in_row then
  -- the address may be alive under each cluster that has the brokerName
  local clusters = call("SMEMBERS", P .. "clusters")
  for i = 1, #clusters do
    if clusters[i] ~= cluster and call("SISMEMBER", P .. "cluster:" .. clusters[i], name) == 1 then
      whos[#whos + 1] = clusters[i] .. "|" .. addr
      clusters_of[#whos] = clusters[i]
    end
  end
end
for i = 1, #whos do
  expect("hash", P .. "live:" .. whos[i])
  check_who(whos[i])
end
for i = 1, #whos do
  if heard_since(whos[i], ARGV[5], ARGV[6], ARGV[7]) then
    return {"LATE", seq}
  end
end
local caller, enforced = asked_by(ARGV[4])
if caller then
  local asks = row.cluster and {"cluster:" .. row.cluster} or {}
  for i = 1, #whos do
    local fields = call("HKEYS", P .. "live:" .. whos[i])
    if #fields > 0 then
      asks[#asks + 1] = "cluster:" .. (call("HGET", P .. "live:" .. whos[i], "cluster") or "")
      names_in(asks, fields)
    end
  end
  asks = ask_for(ARGV[4], asks)
  if asks then
    return asks
  end
end
local owner = foreign_at(caller, addr)
if owner and enforced then
  return {"FOREIGN", seq, owner}
end
if is_in_row then
  remove_from_row(name, whos[1], addr, "broker_unregistered", cluster)
elseif row.acting == "1" and not master then
  -- as in Java, every unregistration from a name without a master takes its write permission
  local bodies, write_perms = plan_wipe(name)
  write_perms()
  if #bodies > 0 then
    emit_topics("write_perm_set", name, "", bodies)
  end
end
for i = 1, #whos do
  local key = P .. "live:" .. whos[i]
  local changed = call("HDEL", key, "name:" .. name)
  if changed == 1 or (i == 1 and call("EXISTS", key) == 1) then
    local others = false
    local fields = call("HKEYS", key)
    for j = 1, #fields do
      others = others or string.sub(fields[j], 1, 5) == "name:"
    end
    if others then
      -- the process has another brokerName: it counts as not alive, and is removed at its deadline
      changed = changed + call("HDEL", key, "digest", "n", "counter", "timestamp", "state_version")
        + call("DEL", P .. "filter:" .. whos[i])
    else
      forget_who(whos[i])
      changed = 1
    end
    if changed > 0 and (i > 1 or not is_in_row) then
      emit("broker_unregistered", ',"broker_name":' .. cjson.encode(name) .. ',"who":' .. cjson.encode(whos[i])
        .. ',"cluster":' .. cjson.encode(clusters_of[i]) .. ',"addr":' .. cjson.encode(addr))
    end
  end
end
return {"OK", seq, is_in_row and 1 or 0, owner or ""}
