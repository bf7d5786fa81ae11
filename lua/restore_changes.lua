--[[ restore_changes: restore changes that Redis lost, from a worker of a front end that knew them
  One worker at a time restores. A worker that knew more changes takes over from a worker that knew fewer. Before each
  call the worker compares what it knew with the present tables. If another change comes first, the call is refused,
  and the worker compares again.
  KEYS[1] meta       HASH
  ARGV[1] losses     int   how many losses of this namespace the caller knew of
  ARGV[2] known_seq  int   the last change that it knew
  ARGV[3] owner      random, of the caller
  ARGV[4] at_seq     int   seq of the tables that it compared with
  ARGV[5] kind       begin; done; kv: name is a KV namespace, given has keys and values, gone has keys; config: given has
                     keys and values; queues: name is a brokerName, given has topics and queue data, gone has topics;
                     remove: name is a who, given has the time (ms) of the last heartbeat that the caller knows of
  ARGV[6] name
  ARGV[7] given      MessagePack array, flat, of <= 250 pairs
  ARGV[8] gone       MessagePack array of <= 250 names
  DERIVED every table of the namespace; given_by, losses, lost_ms in meta
  RETURNS {"OK", seq}
          {"RETRY", seq}: seq is not at_seq; nothing is written
          {"BUSY", seq}: another worker, which knew as much or more, is restoring
          {"OUTDONE", seq}: another worker, which knew as much or more, has finished
  EVENTS  kv_put, kv_deleted, config_set, write_perm_set, topic_deleted, broker_unregistered, all with the member knew
          (include/emit)
  REPEAT  no effect      COST O(given + gone); remove: as channel_destroyed ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/hash"
--- @include "include/emit_topics"
--- @include "include/topic_sets"
--- @include "include/remove_who"
local RESTORER_TIMEOUT_MS = 3000
-- Workers notice a loss within this time. So if the clock of Redis went back with the loss, a heartbeat within this
-- time came after the loss.
local NOTICED_MS = 5000
local losses, known_seq, owner, kind, name = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[5], ARGV[6]
local kept = call("HMGET", KEYS[1], "given_by", "losses")
local other_losses, other_seq, other, state, ms = string.match(kept[1] or "", "^(%d+) (%d+) (%S+) (%S+) (%d+)$")
local is_mine = other == owner
if other and not is_mine then
  other_losses, other_seq, ms = tonumber(other_losses), tonumber(other_seq), tonumber(ms)
  if other_losses > losses or (other_losses == losses and other_seq >= known_seq) then
    if state == "done" then
      return {"OUTDONE", seq}
    elseif now_ms >= ms and now_ms < ms + RESTORER_TIMEOUT_MS then
      return {"BUSY", seq}
    end
  end
end
if kind ~= "begin" and not is_mine then
  return {"BUSY", seq}
end
local function note(what)
  call("HSET", KEYS[1], "given_by", int(losses) .. " " .. int(known_seq) .. " " .. owner .. " " .. what .. " "
    .. int(now_ms))
end
if kind == "begin" then
  call("HSET", KEYS[1], "lost_ms", int(now_ms), "losses", int(math.max(losses + 1, tonumber(kept[2] or "0"))))
  note("giving")
  return {"OK", seq}
elseif seq ~= tonumber(ARGV[4]) then
  return {"RETRY", seq}
elseif kind == "done" then
  note("done")
  return {"OK", seq}
end

local given, gone = cmsgpack.unpack(ARGV[7]), cmsgpack.unpack(ARGV[8])
local function json_of(flat, quoted)
  local items = {}
  for i = 1, #flat, 2 do
    items[#items + 1] = cjson.encode(flat[i]) .. ":" .. (quoted and cjson.encode(flat[i + 1]) or flat[i + 1])
  end
  return table.concat(items, ",")
end

-- the pairs whose value is not in Redis yet: a call is repeated if its answer was lost
local function differing(key, flat)
  local some = {}
  for i = 1, #flat, 2 do
    if call("HGET", key, flat[i]) ~= flat[i + 1] then
      some[#some + 1], some[#some + 2] = flat[i], flat[i + 1]
    end
  end
  return some
end

if kind == "kv" then
  local key, member = P .. "kv:" .. name, ',"kv_namespace":' .. cjson.encode(name)
  expect("set", P .. "kv")
  expect("hash", key, P .. "kv_sizes")
  note("giving")
  if call("SADD", P .. "kv", name) == 1 then
    emit("kv_put", member)
  end
  given = differing(key, given)
  for i = 1, #given, 2 do
    call("HSET", key, given[i], given[i + 1])
    emit("kv_put", member .. ',"key":' .. cjson.encode(given[i]) .. ',"value":' .. cjson.encode(given[i + 1]))
  end
  for i = 1, #gone do
    if call("HDEL", key, gone[i]) == 1 then
      emit("kv_deleted", member .. ',"key":' .. cjson.encode(gone[i]))
    end
  end
  call("HDEL", P .. "kv_sizes", name) -- the next put_kv counts it again
elseif kind == "config" then
  expect("hash", P .. "config")
  note("giving")
  given = differing(P .. "config", given)
  if #given > 0 then
    call("HSET", P .. "config", unpack(given))
    config_rev = call("HINCRBY", KEYS[1], "config_rev", 1) -- see set_config
    emit("config_set", ',"config_rev":' .. config_rev .. ',"config":{' .. json_of(given, true) .. "}")
  end
elseif kind == "queues" and call("EXISTS", P .. "broker:" .. name) == 1 then
  expect("hash", P .. "broker:" .. name, P .. "queues:" .. name)
  note("giving")
  given = differing(P .. "queues:" .. name, given)
  if #given > 0 then
    gained(name, given, call("HSET", P .. "queues:" .. name, unpack(given)))
    emit_topics("write_perm_set", name, "", {json_of(given, false)})
  end
  for i = 1, #gone do
    if call("HDEL", P .. "queues:" .. name, gone[i]) == 1 then
      lost(name, {gone[i]})
      call("HSET", P .. "broker:" .. name, "rev", int(seq + 1))
      emit("topic_deleted", ',"topic":' .. cjson.encode(gone[i]) .. ',"rev":' .. int(seq + 1)
        .. ',"broker_names":[' .. cjson.encode(name) .. "]")
    end
  end
elseif kind == "remove" then
  local live = hash(P .. "live:" .. name)
  local last_ms, beat_ms = tonumber(given[1]), tonumber(live.update_ms or "0")
  local is_heard = beat_ms > last_ms or (now_ms < last_ms and beat_ms <= now_ms and beat_ms > now_ms - NOTICED_MS)
  if live.addr and not is_heard then
    remove_who(name, "broker_unregistered")
  end
  note("giving")
end
return {"OK", seq}
