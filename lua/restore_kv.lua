--[[ restore_kv: a Redis that came back with less gets its KV configuration from a front end that knew more
  Ids of the change stream are times of Redis: those after a loss are higher than all before it. So they tell which
  front end knew the most, and what was changed since the loss.
  KEYS[1] meta       HASH
  ARGV[1] position   id of the last change that the front end had applied before the loss, "0-0" = none
  ARGV[2...] triples of kvNamespace, key, value; an empty key with an empty value means the namespace itself
  DERIVED kv, kv:<kvNamespace>, kv_sizes, changes; kv_given_by in meta: the position of whoever gave back last
  RETURNS {seq, keys restored}. Nothing happens if a front end that had applied more gave back before.
          Else the namespaces become those of this front end, except for keys that were put or deleted since the loss
          (not by a restore): those are newer. If the stream does not hold all changes since the loss, present keys stay
          too
  EVENTS  kv_put for each restored namespace (without a key) and key, kv_deleted for each key that had been deleted and
          came back; each with "restored":true
  REPEAT  no effect      COST O(triples + changes since the loss) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/readers"
local position, MOST_CHANGES, PAGE = ARGV[1], 20000, 200
if before(position, call("HGET", KEYS[1], "kv_given_by") or "0-0") then
  return {seq, 0}
end
expect("set", P .. "kv")
expect("hash", P .. "kv_sizes")
for i = 2, #ARGV, 3 do
  expect("hash", P .. "kv:" .. ARGV[i])
end

local function name_of(kv_namespace, key)
  return #kv_namespace .. " " .. kv_namespace .. key
end

local stream = state_of("changes")
local whole = stream.entries == 0 or not before(position, stream.first) or stream.first_seq == 1
local newer, examined, from = {}, 0, position
while whole do
  local page = call("XRANGE", P .. "changes", "(" .. from, "+", "COUNT", PAGE)
  for i = 1, #page do
    local text = page[i][2][2]
    if string.find(string.sub(text, 1, 100), '"type":"kv_', 1, true) then
      local change = cjson.decode(text)
      if change.key and not change.restored then
        newer[name_of(change.kv_namespace, change.key)] = true
      end
    end
    from = page[i][1]
  end
  examined = examined + #page
  whole = examined < MOST_CHANGES
  if #page < PAGE then
    break
  end
end

local function tell(kind, kv_namespace, key, value)
  emit(kind, ',"kv_namespace":' .. cjson.encode(kv_namespace) .. (key and (',"key":' .. cjson.encode(key)) or "")
    .. (value and (',"value":' .. cjson.encode(value)) or "") .. ',"restored":true')
end

call("HSET", KEYS[1], "kv_given_by", position)
local restored, known = 0, {}
for i = 2, #ARGV, 3 do
  local kv_namespace, key, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  known[kv_namespace] = known[kv_namespace] or {}
  if call("SADD", P .. "kv", kv_namespace) == 1 then
    tell("kv_put", kv_namespace)
  end
  if key ~= "" or value ~= "" then
    known[kv_namespace][key] = true
    local there = call("HGET", P .. "kv:" .. kv_namespace, key)
    if there ~= value and not newer[name_of(kv_namespace, key)] and (whole or not there) then
      call("HSET", P .. "kv:" .. kv_namespace, key, value)
      restored = restored + 1
      tell("kv_put", kv_namespace, key, value)
    end
  end
end
for kv_namespace, keys in pairs(known) do
  local there = whole and call("HKEYS", P .. "kv:" .. kv_namespace) or {}
  for i = 1, #there do
    if not keys[there[i]] and not newer[name_of(kv_namespace, there[i])] then
      call("HDEL", P .. "kv:" .. kv_namespace, there[i])
      tell("kv_deleted", kv_namespace, there[i])
    end
  end
  call("HDEL", P .. "kv_sizes", kv_namespace) -- to be counted again
end
return {seq, restored}
