--[[ tables: the five tables of a NameServer (RouteInfoManager) under their names; read only, for redis-cli
    mqregistry redis-cli --eval lua/inspect/tables.lua 'mq:{default}:meta' , 100
    mqregistry redis-cli EVAL_RO "$(cat lua/inspect/tables.lua)" 1 'mq:{default}:meta'            # Redis 7 and Valkey
  KEYS[1] meta  of the namespace
  ARGV[1] most  int   rows of each table that are shown; default 1000
  RETURNS lines: topicQueueTable, brokerAddrTable, clusterAddrTable, brokerLiveTable, filterServerTable, each with its
          indented rows
  COST    O(most) ]]
local P, most, lines = string.sub(KEYS[1], 1, -5), tonumber(ARGV[1] or "1000"), {}
local function add(indent, text)
  lines[#lines + 1] = string.rep("  ", indent) .. text
end

-- at least the first `most` names of a SET, or of the ZSET deadlines, and how many names it has
local function names_of(what)
  local is_set = redis.call("TYPE", P .. what).ok ~= "zset"
  local all, cursor, found = redis.call(is_set and "SCARD" or "ZCARD", P .. what), "0", {}
  repeat
    local page = redis.call(is_set and "SSCAN" or "ZSCAN", P .. what, cursor, "COUNT", 500)
    cursor = page[1]
    for i = 1, #page[2], is_set and 1 or 2 do
      found[#found + 1] = page[2][i]
    end
  until cursor == "0" or #found >= most
  table.sort(found)
  return found, all
end

local function show(table_name, what, row)
  add(0, table_name)
  local names, all = names_of(what)
  for i = 1, math.min(#names, most) do
    row(names[i])
  end
  if all > most then
    add(1, "... and " .. all - most .. " more")
  end
end

local function fields_of(key)
  local flat, fields, ids = redis.call("HGETALL", key), {}, {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
    if string.match(flat[i], "^-?%d+$") then
      ids[#ids + 1] = flat[i] .. "=" .. flat[i + 1]
    end
  end
  table.sort(ids)
  return fields, table.concat(ids, ", "), flat
end

show("topicQueueTable", "topics", function(topic)
  add(1, topic)
  local names = redis.call("SMEMBERS", P .. "topic:" .. topic)
  table.sort(names)
  for i = 1, #names do
    local data = redis.call("HGET", P .. "queues:" .. names[i], topic)
    if data then
      data = cjson.decode(data)
      add(2, string.format("%s: readQueueNums=%d writeQueueNums=%d perm=%d topicSysFlag=%d",
        names[i], data.r, data.w, data.p, data.f))
    end
  end
end)
show("brokerAddrTable", "brokers", function(name)
  local row, addrs = fields_of(P .. "broker:" .. name)
  add(1, name .. ": cluster=" .. (row.cluster or "") .. " brokerAddrs={" .. addrs .. "} enableActingMaster="
    .. (row.acting == "1" and "true" or "false") .. (row.zone and " zoneName=" .. row.zone or ""))
end)
show("clusterAddrTable", "clusters", function(cluster)
  local names = redis.call("SMEMBERS", P .. "cluster:" .. cluster)
  table.sort(names)
  add(1, cluster .. ": " .. table.concat(names, ", "))
end)
show("brokerLiveTable", "deadlines", function(who)
  local live = fields_of(P .. "live:" .. who)
  local _, _, channels = fields_of(P .. "channels:" .. who)
  local told = {}
  for i = 1, #channels, 2 do
    told[#told + 1] = channels[i]
  end
  table.sort(told)
  add(1, who .. ": lastUpdateTimestamp=" .. (live.update_ms or "") .. " heartbeatTimeoutMillis="
    .. (live.timeout_ms or "") .. " dataVersion={counter=" .. (live.counter or "") .. ", timestamp="
    .. (live.timestamp or "") .. ", stateVersion=" .. (live.state_version or "") .. "} haServerAddr="
    .. (live.ha or "") .. " channels={" .. table.concat(told, ", ") .. "}")
end)
show("filterServerTable", "deadlines", function(who)
  local servers = redis.call("LRANGE", P .. "filter:" .. who, 0, -1)
  if #servers > 0 then
    add(1, who .. ": " .. table.concat(servers, ", "))
  end
end)
return lines
