--[[ write_cells: many topics' queue data of one brokerName, all or nothing
  NEEDS  open, expect
  GIVES  write_cells(name, keys, queue_datas, before, prefix_bytes) -> the topics that the name did not have. A key of
         another type is an error that names it, and every key is as it was. before is JSON, see register_broker; keys
         begin with prefix_bytes that are no part of the topic. One call a topic: ten thousand of them are what a large
         registration costs.
  USED BY register_broker ]]
local function put_back(name, keys, before, written, is_new)
  local known = before ~= "" and cjson.decode(before) or {}
  for i = 1, written do
    local old = known[i]
    if is_new[i] then
      call("HDEL", keys[i], name)
    elseif type(old) == "table" then
      call("HSET", keys[i], name, string.format('{"r":%.0f,"w":%.0f,"p":%.0f,"f":%.0f}', old.r, old.w, old.p, old.f))
    end
  end
end

local function write_cells(name, keys, queue_datas, before, prefix_bytes)
  local pcall, topics, is_new = redis.pcall, {}, {}
  for i = 1, #keys do
    local added = pcall("HSET", keys[i], name, queue_datas[i])
    if added == 1 then
      topics[#topics + 1] = string.sub(keys[i], prefix_bytes + 1)
      is_new[i] = true
    elseif added ~= 0 then
      put_back(name, keys, before, i - 1, is_new)
      expect("hash", keys[i])
      error(added.err, 0)
    end
  end
  return topics
end
