--[[ restore_kv: a Redis that came back with less gets some KV configuration from a front end that knew more
  Ids of the change stream are times of Redis: those after a loss are higher than all before it. So they tell which
  front end knew the most, and what was changed since the loss.
  A front end calls this for some keys at a time, however much it knows, and each call looks at some changes only.
  KEYS[1] meta       HASH
  ARGV[1] position   id of the last change that the front end had applied before the loss, "0-0" = none
  ARGV[2] from       id of the last change since the loss that an earlier call looked at; at first position, or 0-0 where
                     the whole stream is later than the loss
  ARGV[3] kv_namespace
  ARGV[4] keys       MessagePack array of <= 250 keys and values in turn, without those that were changed since the loss
  ARGV[5] gone       MessagePack array of <= 250 keys that Redis has and the front end does not know, without the same
  DERIVED kv, kv:<kvNamespace>, kv_sizes, changes; kv_given_by in meta: the position of whoever gave back last
  RETURNS {"OK", seq, keys restored, id, newer...}
          {"MORE", seq, 0, id, newer...}: there are later changes than could be looked at; nothing is written
          {"OUTDONE", seq, 0, id}: a front end that had applied more gave back before; nothing is written
          id: what from is the next time. newer: MessagePack arrays of (kvNamespace, key) pairs, flat, that were put or
          deleted since the loss (not by a restore): they stay as they are. If the stream does not hold all changes
          since the loss, present keys stay too
  EVENTS  kv_put for the namespace (without a key) if it is restored, and for each restored key; kv_deleted for each key
          that had been deleted and came back; each with "restored":true
  REPEAT  no effect      COST O(keys + gone + changes looked at) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/readers"
--- @include "include/collect"
local position, from, kv_namespace = ARGV[1], ARGV[2], ARGV[3]
local MOST_CHANGES, MOST_BYTES, PAGE = 5000, 16 * 1024 * 1024, 200
if before(position, call("HGET", KEYS[1], "kv_given_by") or "0-0") then
  return {"OUTDONE", seq, 0, from}
end
local key = P .. "kv:" .. kv_namespace
expect("set", P .. "kv")
expect("hash", P .. "kv_sizes", key)

local stream, newer_here, newer = state_of("changes"), {}, {}
local whole = stream.entries == 0 or not before(position, stream.first) or stream.first_seq == 1
local looked_at, bytes, more = 0, 0, true
while more and looked_at < MOST_CHANGES and bytes < MOST_BYTES do
  local page, names = call("XRANGE", P .. "changes", "(" .. from, "+", "COUNT", PAGE), {}
  for i = 1, #page do
    local text = page[i][2][2]
    if string.find(string.sub(text, 1, 100), '"type":"kv_', 1, true) then
      local change = cjson.decode(text)
      if change.key and not change.restored then
        names[#names + 1] = change.kv_namespace
        names[#names + 1] = change.key
      end
    end
    bytes, from = bytes + #text, page[i][1]
  end
  looked_at, more = looked_at + #page, #page == PAGE
  if #names > 0 then
    newer[#newer + 1] = cmsgpack.pack(names)
  end
  page, names = nil, nil
  collect()
end
if more then
  return {"MORE", seq, 0, from, unpack(newer)}
end
for part = 1, #newer do
  local names = cmsgpack.unpack(newer[part])
  for i = 1, #names, 2 do
    if names[i] == kv_namespace then
      newer_here[redis.sha1hex(names[i + 1])] = true -- texts that nobody can choose
    end
  end
  names = nil
  collect()
end

local function tell(kind, name, value)
  emit(kind, ',"kv_namespace":' .. cjson.encode(kv_namespace) .. (name and (',"key":' .. cjson.encode(name)) or "")
    .. (value and (',"value":' .. cjson.encode(value)) or "") .. ',"restored":true')
end

call("HSET", KEYS[1], "kv_given_by", position)
if call("SADD", P .. "kv", kv_namespace) == 1 then
  tell("kv_put")
end
local given, gone, restored = cmsgpack.unpack(ARGV[4]), cmsgpack.unpack(ARGV[5]), 0
for i = 1, #given, 2 do
  local name, value = given[i], given[i + 1]
  local there = call("HGET", key, name)
  if there ~= value and not newer_here[redis.sha1hex(name)] and (whole or not there) then
    call("HSET", key, name, value)
    restored = restored + 1
    tell("kv_put", name, value)
  end
end
for i = 1, whole and #gone or 0 do
  if not newer_here[redis.sha1hex(gone[i])] and call("HDEL", key, gone[i]) == 1 then
    tell("kv_deleted", gone[i])
  end
end
call("HDEL", P .. "kv_sizes", kv_namespace) -- to be counted again
return {"OK", seq, restored, from, unpack(newer)}
