--[[ register_broker: write what a registration changes
  The caller decoded the body and compared it with its view (copy) of the tables. It sends the difference, and the state
  of its view: epoch, rev of the broker row, n of the live info, config_rev. If Redis has another state now, the script
  writes nothing, and the caller compares again.
  KEYS[1]  meta            HASH
  ARGV[1]  who             <cluster>|<brokerAddr>; with compat 4.8, where the address alone counts, |<brokerAddr>
  ARGV[2]  epoch           expected
  ARGV[3]  rev             expected rev of the row, "0" = no such brokerName
  ARGV[4]  n               expected number of the process's last registration, "0" = not known
  ARGV[5]  config_rev      expected
  ARGV[6]  cluster
  ARGV[7]  broker_name
  ARGV[8]  broker_id       decimal
  ARGV[9]  broker_addr
  ARGV[10] ha_server_addr  "=" before it (it may be empty), "" = none
  ARGV[11] zone_name       "=" before it, "" = none
  ARGV[12] acting_master   "1" or "0"
  ARGV[13] timeout_ms
  ARGV[14] counter         of the DataVersion
  ARGV[15] timestamp
  ARGV[16] state_version
  ARGV[17] digest          the script heartbeat compares the next registration with it, "" = none
  ARGV[18] front_end
  ARGV[19] channel         "" = none
  ARGV[20] bytes           size of the body
  ARGV[21] one_topic       "1": the registration holds exactly one topic (refused for an unknown broker id)
  ARGV[22] filters         number of filter servers that follow, "-1" = leave the list as it is
  ARGV[23] parts           number of (cells, body) pairs that follow, each of <= 500 topics that get new queue data.
                           cells is a MessagePack array, flat: topic, queue data, topic, ...; body is the same as JSON
                           members for the event
  ARGV[24] dropped         number of MessagePack arrays that follow, each of <= 250 topics to take from this brokerName
  ARGV[25] mappings        number of MessagePack arrays that follow, each of <= 250 (topic, brokerName, JSON) triples,
                           flat; a triple that Redis has already changes nothing. Names are packed because arguments
                           stay in Lua's memory until the script ends (include/collect)
  ARGV[26] more            "1": the caller writes the rest of this registration by further calls. Until the last call
                           the broker keeps its old DataVersion, or zeros, and has no digest: so if the caller dies,
                           the broker's next registration is compared as a whole. Adds no entry to heartbeats.
                           "restored <seq>": the caller restores a broker that Redis lost, after a comparison with the
                           tables at seq: the script checks seq instead of rev, n and config_rev, and this is no
                           heartbeat
  ARGV[27] owner           the caller and his checked resources, see include/owner
  ARGV[28...] filter servers, pairs, dropped, mappings
  DERIVED  every table of the namespace
  RETURNS  {"OK", seq, masterAddr, haServerAddr, changed 0|1, rev, n, other owner ("" = none)}: rev of the row and n of
           the live info now
           {"RETRY", seq, n, counter, timestamp, stateVersion, another body than last time 0|1}: compare again
           {"REFRESHED", seq, masterAddr, haServerAddr}: an older registration that came late; it counts as a heartbeat
           {"FOREIGN", seq, owner}: another user registered this broker, or the broker with this id; nothing is written
           {"ASK", seq, resource, ...}: resources of the row, or of mappings, for which the right was not checked
           (include/owner); nothing is written
           {"REFUSED_STATE", seq}: another address holds the id with a higher stateVersion
           {"REFUSED_ONE_TOPIC", seq}
           {"WIPING", seq}: the brokerName is losing its write permission (include/wiping): call finish_wipe first;
           nothing is written
           an error "MQLIMIT ...": this would be one id too many for the row, one brokerName too many for the process,
           or one cluster too many for the namespace
  EVENTS   broker_registered when anything but the time of the last update changed; in parts of 500 topics
           broker_refused, ignorable: with REFUSED_STATE, when the process had counted as alive until then
  REPEAT   the same tables, no second event      COST O(topics sent)
  SOURCE   RouteInfoManager.registerBroker (5.x); docs/semantics.md 12-26 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/in_chunks"
--- @include "include/row_json"
--- @include "include/emit_topics"
--- @include "include/liveness"
--- @include "include/master_of"
--- @include "include/heard"
--- @include "include/int64"
--- @include "include/collect"
--- @include "include/owner"
--- @include "include/topic_sets"
-- The most ids of a row: every registration and every event of the row has all of them; a broker group has a few.
local MOST_IDS = 256
-- The most brokerNames of one process (a real one has one), and the most clusters: scripts read all of them at once.
local MOST_NAMES, MOST_CLUSTERS = 256, 1000
local who, cluster, name, id, addr = ARGV[1], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local scope = string.sub(who, 1, #who - #addr - 1) -- the cluster; "" with compat 4.8: live info is kept by address
local live_key, row_key = P .. "live:" .. who, P .. "broker:" .. name
local live, row = hash(live_key), hash(row_key)
local new_version = {counter = ARGV[14], timestamp = ARGV[15], state_version = ARGV[16]}

-- First the owner: to another user the reply must say nothing about the tables.
local holder = row[id]
local caller, enforced = asked_by(ARGV[27])
if caller then
  local asks = {"cluster:" .. (row.cluster or cluster)}
  if live.user ~= (live.n or "") .. " " .. caller then
    local fields = {}
    for field in pairs(live) do
      fields[#fields + 1] = field
    end
    names_in(asks, fields)
  end
  asks = ask_for(ARGV[27], asks)
  if asks then
    return asks
  end
end
local owner = foreign_at(caller, addr) or (holder and holder ~= addr and foreign_at(caller, holder)) or nil
if owner and enforced then
  return {"FOREIGN", seq, owner}
end

-- 1. Are the tables still as the caller compared them?
local is_new_body = live.digest ~= ARGV[17] and 1 or 0
local restored = string.match(ARGV[26], "^restored (%d+)$")
local was_restored = live.restored ~= nil and live.restored == live.n
if restored and tonumber(restored) ~= seq or not restored and ((row.rev or "0") ~= ARGV[3] or config_rev ~= ARGV[5]
  or (live.n or "0") ~= ARGV[4]) or epoch ~= ARGV[2] then
  local advances, same = false, true
  for field, value in pairs(new_version) do
    advances = advances or not live[field] or less(live[field], value)
    same = same and live[field] == value
  end
  local is_other_part = same and is_new_body == 1 -- all parts of a split registration have one DataVersion
  if not restored and epoch == ARGV[2] and live.n and live.n ~= ARGV[4] and live["name:" .. name] and not advances
    and not is_other_part then
    -- Since the caller compared, another registration came that is at least as new. The older registration must not
    -- bring back what the newer one, or an administrator, removed.
    check_liveness(who, ARGV[19])
    local master_addr, ha_server_addr = master_of(scope, name, id)
    refresh(who, tonumber(live.timeout_ms), live.closed_at, live.update_ms)
    attach(who, ARGV[18], ARGV[19], false)
    heard(who, name, ARGV[18], "same", live.update_ms, ARGV[20])
    return {"REFRESHED", seq, master_addr, ha_server_addr}
  end
  return {"RETRY", seq, live.n or "0", live.counter or "", live.timestamp or "", live.state_version or "", is_new_body}
end

if row.acting == "1" and not row["0"] and call("HEXISTS", P .. "wiping", name) == 1 then
  return {"WIPING", seq}
end

-- 2. Refusals; nothing is stored.
if holder and holder ~= addr then
  local held_version = call("HGET", P .. "live:" .. scope .. "|" .. holder, "state_version")
  if held_version and less(new_version.state_version, held_version) then
    if call("HDEL", live_key, "digest", "n", "counter", "timestamp", "state_version") > 0 then
      emit("broker_refused", ',"ignorable":true,"broker_name":' .. cjson.encode(name) .. ',"who":' .. cjson.encode(who)
        .. ',"cluster":' .. cjson.encode(cluster) .. ',"broker_id":' .. id .. ',"addr":' .. cjson.encode(addr))
    end
    heard(who, name, ARGV[18], "refused", live.update_ms, ARGV[20])
    return {"REFUSED_STATE", seq}
  end
end
if ARGV[21] == "1" and not holder then
  heard(who, name, ARGV[18], "refused", live.update_ms, ARGV[20])
  return {"REFUSED_ONE_TOPIC", seq}
end

-- 3. What changes?
local at = 28
local function take(count)
  local first = at
  at = at + count
  return first, at - 1
end
local filter_first, filter_last = take(math.max(0, tonumber(ARGV[22])))
local parts = tonumber(ARGV[23])
local parts_first = take(2 * parts)
local dropped_first, dropped_last = take(tonumber(ARGV[24]))
local mapping_first, mapping_last = take(tonumber(ARGV[25]))

local new_row = {cluster = row.cluster or cluster, acting = ARGV[12], [id] = addr}
if ARGV[11] ~= "" then
  new_row.zone = string.sub(ARGV[11], 2)
end
local moved = {}
for field, value in pairs(row) do
  if is_broker_id(field) and field ~= id then
    if value == addr then
      moved[#moved + 1] = field -- one address has one id
    else
      new_row[field] = value
    end
  end
end
local ids, row_fields = 0, {} -- row_fields: the changed fields of the row
for field, value in pairs(new_row) do
  ids = ids + (is_broker_id(field) and 1 or 0)
  if row[field] ~= value then
    row_fields[#row_fields + 1] = field
    row_fields[#row_fields + 1] = value
  end
end
if ids > MOST_IDS and not holder then
  return redis.error_reply("MQLIMIT a brokerName has at most " .. MOST_IDS .. " broker ids, " .. name .. " has as many")
end
if not live["name:" .. name] then
  local names = 0
  for field in pairs(live) do
    names = names + (string.sub(field, 1, 5) == "name:" and 1 or 0)
  end
  if names >= MOST_NAMES then
    return redis.error_reply("MQLIMIT a process has at most " .. MOST_NAMES .. " brokerNames, " .. who .. " has as many")
  end
end
local row_changed = #moved > 0 or row.zone ~= new_row.zone or #row_fields > 0
local cluster_changed = call("SISMEMBER", P .. "cluster:" .. cluster, name) == 0
if cluster_changed and call("SCARD", P .. "clusters") >= MOST_CLUSTERS
  and call("SISMEMBER", P .. "clusters", cluster) == 0 then
  return redis.error_reply("MQLIMIT a namespace has at most " .. MOST_CLUSTERS .. " clusters, " .. cluster
    .. " would be one more")
end
local cells, bodies = {}, {}
for i = 1, parts do
  cells[i], bodies[i] = ARGV[parts_first + 2 * i - 2], ARGV[parts_first + 2 * i - 1]
end
local queues_key, mapping_prefix = P .. "queues:" .. name, P .. "mapping:"
-- calls use(texts) for each packed array
local function each_packed(packed, first, last, use)
  for i = first, last do
    use(cmsgpack.unpack(packed[i]))
    collect()
  end
end
local function each_mapping(packed, first, last, use)
  each_packed(packed, first, last, function(triples)
    local keys = {}
    for i = 1, #triples, 3 do
      keys[#keys + 1] = mapping_prefix .. triples[i]
    end
    use(triples, keys)
  end)
end
local queue_data_changed = parts > 0 or dropped_last >= dropped_first

local filter_key, filter_json, filters = P .. "filter:" .. who, nil, {}
if ARGV[22] ~= "-1" then
  local present, same = call("LRANGE", filter_key, 0, -1), true
  same = #present == filter_last - filter_first + 1
  for i = 1, #present do
    same = same and present[i] == ARGV[filter_first + i - 1]
  end
  if not same then
    local items = {}
    for i = filter_first, filter_last do
      filters[#filters + 1] = ARGV[i]
      items[#items + 1] = cjson.encode(ARGV[i])
    end
    filter_json = "[" .. table.concat(items, ",") .. "]"
  end
end

local more = ARGV[26] == "1"
local new_live = {cluster = cluster, addr = addr, timeout_ms = ARGV[13], ["name:" .. name] = id,
  counter = more and (live.counter or "0") or ARGV[14], timestamp = more and (live.timestamp or "0") or ARGV[15],
  state_version = more and (live.state_version or "0") or ARGV[16],
  ha = ARGV[10] ~= "" and string.sub(ARGV[10], 2) or nil}
local live_changed = live.ha ~= new_live.ha or was_restored
for field, value in pairs(new_live) do
  live_changed = live_changed or live[field] ~= value
end
local new_mappings = {} -- packed as they came
local asks
each_mapping(ARGV, mapping_first, mapping_last, function(triples, keys)
  expect_hashes(keys)
  for i = 2, caller and not asks and #triples or 0, 3 do
    if triples[i] ~= name then
      local of = call("HGET", P .. "broker:" .. triples[i], "cluster")
      asks = asks or of and ask_for(ARGV[27], {"cluster:" .. of})
    end
  end
  local new = {}
  for i = 1, #keys do
    if call("HGET", keys[i], triples[3 * i - 1]) ~= triples[3 * i] then
      for j = 3 * i - 2, 3 * i do
        new[#new + 1] = triples[j]
      end
    end
  end
  if #new > 0 then
    new_mappings[#new_mappings + 1] = cmsgpack.pack(new)
  end
end)
if asks then
  return asks
end
local changed = row_changed or cluster_changed or queue_data_changed or filter_json ~= nil or live_changed
  or #new_mappings > 0

expect("set", P .. "clusters", P .. "brokers", P .. "mappings")
expect("hash", queues_key)
check_liveness(who, ARGV[19])
if row["0"] then -- master_of reads it
  expect("hash", P .. "live:" .. scope .. "|" .. row["0"])
end

-- 4. Write.
each_packed(cells, 1, parts, function(flat)
  local new = call("HSET", queues_key, unpack(flat))
  if new > 0 then
    gained(name, flat, new)
  end
end)
if cluster_changed then
  call("SADD", P .. "clusters", cluster)
  call("SADD", P .. "cluster:" .. cluster, name)
end
if row_changed then
  call("SADD", P .. "brokers", name)
  for i = 1, #moved do
    call("HDEL", row_key, moved[i])
  end
  if row.zone and not new_row.zone then
    call("HDEL", row_key, "zone")
  end
  if #row_fields > 0 then -- cluster, zone, acting and one id at most
    call("HSET", row_key, unpack(row_fields))
  end
end
local dropped_json, mappings_json = {}, {} -- a text for each argument
each_packed(ARGV, dropped_first, dropped_last, function(topics)
  local items = {}
  for i = 1, #topics do
    items[i] = cjson.encode(topics[i])
  end
  call("HDEL", queues_key, unpack(topics))
  lost(name, topics)
  dropped_json[#dropped_json + 1] = table.concat(items, ",")
end)
each_mapping(new_mappings, 1, #new_mappings, function(triples, keys)
  local items = {}
  for i = 1, #keys do
    local topic, holder_name, json = triples[3 * i - 2], triples[3 * i - 1], triples[3 * i]
    call("SADD", P .. "mappings", topic)
    call("HSET", keys[i], holder_name, json)
    items[i] = "[" .. cjson.encode(topic) .. "," .. cjson.encode(holder_name) .. "," .. cjson.encode(json) .. "]"
  end
  mappings_json[#mappings_json + 1] = table.concat(items, ",")
end)
if filter_json then
  call("DEL", filter_key)
  in_chunks("RPUSH", filter_key, filters)
end

local rev = row.rev or "0"
if changed then
  local members = ',"who":' .. cjson.encode(who) .. ',"cluster":' .. cjson.encode(cluster)
    .. ',"broker_id":' .. id .. ',"addr":' .. cjson.encode(addr)
    .. ',"live":{"timeout_ms":' .. ARGV[13] .. ',"counter":' .. new_live.counter
    .. ',"timestamp":' .. new_live.timestamp .. ',"state_version":' .. new_live.state_version .. (new_live.ha and (',"ha":' .. cjson.encode(new_live.ha)) or "") .. "}"
    .. (live.addr and "" or ',"new":true')
    .. (row_changed and (',"row":' .. row_json(new_row)) or "")
    .. (filter_json and (',"filter_servers":' .. filter_json) or "")
    .. (#dropped_json > 0 and (',"dropped":[' .. table.concat(dropped_json, ",") .. "]") or "")
    .. (#mappings_json > 0 and (',"mappings":[' .. table.concat(mappings_json, ",") .. "]") or "")
  if row_changed or queue_data_changed or #new_mappings > 0 then
    rev = emit_topics("broker_registered", name, members, bodies)
  else
    emit("broker_registered", ',"broker_name":' .. cjson.encode(name) .. members)
  end
end

-- every registration that counts gets a new n, so that a slower one is recognised by its old n
local n = call("HINCRBY", KEYS[1], "n", 1)
call("HSET", live_key, "cluster", cluster, "addr", addr, "name:" .. name, id, "timeout_ms", ARGV[13],
  "counter", new_live.counter, "timestamp", new_live.timestamp, "state_version", new_live.state_version,
  "n", n, "digest", more and "" or ARGV[17], "rev", rev, "config_rev", config_rev)
if new_live.ha then
  call("HSET", live_key, "ha", new_live.ha)
elseif live.ha then
  call("HDEL", live_key, "ha")
end
if caller and caller ~= "" then
  call("HSET", live_key, "user", n .. " " .. caller)
elseif live.user then
  call("HDEL", live_key, "user")
end
refresh(who, tonumber(ARGV[13]), live.closed_at, live.update_ms)
if restored then -- the broker sent no heartbeat
  call("HDEL", live_key, "update_ms")
  call("HSET", live_key, "restored", n, live.update_ms and "update_ms" or "restored", live.update_ms or n)
elseif live.restored then
  call("HDEL", live_key, "restored")
end
attach(who, ARGV[18], ARGV[19], false)
if not more and not restored then
  heard(who, name, ARGV[18], "changed", live.update_ms, ARGV[20])
end
local master_addr, ha_server_addr = master_of(scope, name, id)
return {"OK", seq, master_addr, ha_server_addr, changed and 1 or 0, rev, n, owner or ""}
