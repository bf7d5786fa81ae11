--[[ remove_who: take one broker process out of every table
  GIVES  remove_who(who, reason, cause): reason is the event's type, cause a member of it. It removes the address from
         the rows of its brokerNames. A name without addresses is removed from every cluster, and its queue data (one
         key, include/topic_sets) is deleted. A name with addresses but no master loses its write permission if acting
         masters are enabled (include/wiping). An id that another address has taken stays. The address stays in a row
         if it also registered this brokerName under another cluster: the broker came back under that cluster without
         closing its channel first.
         Steps for other scripts: check_who(who), before any write; remove_from_row(...), with who nil if the process
         only leaves this row; forget_who(who).
         topics_of(who) -> the most topics that remove_who(who) can take the write permission from.
  COST   O(topics that lose write permission), at most the room of include/wiping ]]
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/row_json"
--- @include "include/emit_topics"
--- @include "include/wiping"
--- @include "include/topic_sets"
expect("set", P .. "brokers")
expect("zset", P .. "deadlines", P .. "disconnected")

local function remove_name(name)
  local clusters, cluster_keys = call("SMEMBERS", P .. "clusters"), {}
  for i = 1, #clusters do
    cluster_keys[i] = P .. "cluster:" .. clusters[i]
    expect("set", cluster_keys[i])
  end
  leave(name)
  call("UNLINK", P .. "broker:" .. name)
  call("HDEL", P .. "wiping", name)
  call("SREM", P .. "brokers", name)
  for i = 1, #clusters do
    if call("SREM", cluster_keys[i], name) == 1 and call("EXISTS", cluster_keys[i]) == 0 then
      call("SREM", P .. "clusters", clusters[i])
    end
  end
end

local function members_of(who, addr, cluster, cause)
  return (who and (',"who":' .. cjson.encode(who)) or "") .. ',"cluster":' .. cjson.encode(cluster)
    .. ',"addr":' .. cjson.encode(addr) .. (cause and (',"cause":' .. cjson.encode(cause)) or "")
end

local function remove_from_row(name, who, addr, reason, cluster, cause)
  local members = members_of(who, addr, cluster, cause)
  local row, others, master = hash(P .. "broker:" .. name), 0, false
  local mine
  for field, value in pairs(row) do
    if is_broker_id(field) then
      if value == addr then
        mine = field
      else
        others = others + 1
        master = master or tonumber(field) <= 0
      end
    end
  end
  if not mine then
    emit(reason, ',"broker_name":' .. cjson.encode(name) .. members)
    return
  end
  members = members .. ',"broker_id":' .. mine
  if others == 0 then
    remove_name(name)
    emit(reason, ',"broker_name":' .. cjson.encode(name) .. members .. ',"row":null')
    return
  end
  local bodies, write_perms = {}, nil
  if row.acting == "1" and not master then
    bodies, write_perms = plan_wipe(name)
  end
  call("HDEL", P .. "broker:" .. name, mine)
  row[mine] = nil
  if write_perms then
    write_perms()
  end
  emit_topics(reason, name, members .. ',"row":' .. row_json(row), bodies)
end

local function check_who(who)
  local channels = call("HVALS", P .. "channels:" .. who)
  for i = 1, #channels do
    expect("set", P .. "held:" .. string.match(channels[i], "^[^/]*"))
  end
end

local function forget_who(who)
  local channels = call("HVALS", P .. "channels:" .. who)
  for i = 1, #channels do
    call("SREM", P .. "held:" .. string.match(channels[i], "^[^/]*"), who)
  end
  call("DEL", P .. "live:" .. who, P .. "beat:" .. who, P .. "filter:" .. who, P .. "channels:" .. who)
  call("ZREM", P .. "deadlines", who)
  call("ZREM", P .. "disconnected", who)
end

local function topics_of(who)
  local fields, count = call("HKEYS", P .. "live:" .. who), 0
  for i = 1, #fields do
    if string.sub(fields[i], 1, 5) == "name:" then
      local name = string.sub(fields[i], 6)
      if call("HGET", P .. "broker:" .. name, "acting") == "1" then
        count = count + call("HLEN", P .. "queues:" .. name)
      end
    end
  end
  return count
end

-- the live info of the same address under other clusters
local function others_of(who, addr)
  local clusters, others = call("SMEMBERS", P .. "clusters"), {}
  for i = 1, #clusters do
    local other = clusters[i] .. "|" .. addr
    if other ~= who and call("EXISTS", P .. "live:" .. other) == 1 then
      expect("hash", P .. "live:" .. other)
      others[#others + 1] = P .. "live:" .. other
    end
  end
  return others
end

local function holds_addr(row, addr)
  for field, value in pairs(row) do
    if is_broker_id(field) and value == addr then
      return true
    end
  end
  return false
end

local function remove_who(who, reason, cause)
  local live = hash(P .. "live:" .. who)
  check_who(who)
  for field in pairs(live) do
    if string.sub(field, 1, 5) == "name:" then
      local name = string.sub(field, 6)
      expect("hash", P .. "broker:" .. name)
      if call("HGET", P .. "broker:" .. name, "acting") == "1" then
        expect("hash", P .. "queues:" .. name) -- without acting masters this key is only deleted, so any type is fine
      end
    end
  end
  local clusters = call("SMEMBERS", P .. "clusters")
  for i = 1, #clusters do
    expect("set", P .. "cluster:" .. clusters[i])
  end
  local others = live.addr and others_of(who, live.addr) or {}
  for field in pairs(live.addr and live or {}) do
    if string.sub(field, 1, 5) == "name:" then
      local name, stays = string.sub(field, 6), false
      for i = 1, #others do
        stays = stays or call("HEXISTS", others[i], field) == 1
      end
      local row = stays and hash(P .. "broker:" .. name)
      if row and holds_addr(row, live.addr) then
        -- the row does not change: the event only says that this process is gone
        emit_topics(reason, name, members_of(who, live.addr, live.cluster, cause) .. ',"row":' .. row_json(row), {})
      else
        remove_from_row(name, who, live.addr, reason, live.cluster, cause)
      end
    end
  end
  forget_who(who)
end
