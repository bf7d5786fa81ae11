--[[ remove_who: take one broker process out of every table
  NEEDS  open, expect, emit, hash, in_chunks, row_json, emptied, queue_data, emit_topics
  GIVES  remove_who(who, reason): reason is the event's type. Removes the address from every brokerName it stands
         under. The last address of a name takes the name, its queue data, its topics where nobody else has
         them, and its place in every cluster. A name that keeps other addresses, none of them a master, while
         acting masters are enabled, loses its write permission. An id that another address took meanwhile
         stays with that address.
         Its parts: check_who(who) before anything is written, remove_from_row(...) (who nil: the process lives on
         without this place), forget_who(who).
  USED BY unregister_broker, unregister_broker_id, channel_destroyed, expire_brokers, reap_worker
  COST   O(topics of a name that goes) ]]
expect("set", P .. "topics", P .. "brokers")
expect("zset", P .. "deadlines")

local function remove_name(name)
  local clusters, cluster_keys = call("SMEMBERS", P .. "clusters"), {}
  for i = 1, #clusters do
    cluster_keys[i] = P .. "cluster:" .. clusters[i]
    expect("set", cluster_keys[i])
  end
  local topics, keys = call("SMEMBERS", P .. "broker-topics:" .. name), {}
  local topic_prefix, pcall = P .. "topic:", redis.pcall
  for i = 1, #topics do
    local key = topic_prefix .. topics[i]
    keys[i] = key
    pcall("HDEL", key, name) -- what is no hash has nothing of this broker's, and must not keep it in the tables
  end
  in_chunks("SREM", P .. "topics", emptied(topics, keys))
  call("UNLINK", P .. "broker-topics:" .. name, P .. "broker:" .. name)
  call("SREM", P .. "brokers", name)
  for i = 1, #clusters do
    if call("SREM", cluster_keys[i], name) == 1 and call("EXISTS", cluster_keys[i]) == 0 then
      call("SREM", P .. "clusters", clusters[i])
    end
  end
end

local function without_write(perm)
  return bit.band(perm, bit.bnot(2))
end

local function remove_from_row(name, who, addr, reason, cluster)
  local members = (who and (',"who":' .. cjson.encode(who)) or "") .. ',"cluster":' .. cjson.encode(cluster)
    .. ',"addr":' .. cjson.encode(addr)
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
    local _
    _, bodies, write_perms = plan_perms(name, without_write)
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
end

local function remove_who(who, reason)
  local live = hash(P .. "live:" .. who)
  check_who(who)
  if live.addr then
    for field in pairs(live) do
      if string.sub(field, 1, 5) == "name:" then
        remove_from_row(string.sub(field, 6), who, live.addr, reason, live.cluster)
      end
    end
  end
  forget_who(who)
end
