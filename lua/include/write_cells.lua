--[[ write_cells: many topics' queue data of one brokerName, all or nothing
  NEEDS  open, expect, collect
  GIVES  write_cells(name, parts, before, prefix_bytes) -> the topics that the name did not have, as a list of
         MessagePack arrays, so that their names are not in memory all at once (collect). A key of another type gives an
         error that names it, and every key is then restored. parts (cells) and before are MessagePack, see
         register_broker; keys begin with prefix_bytes that are no part of the topic. It makes one call for each topic:
         they are most of the cost of a large registration.
  USED BY register_broker ]]

local COLLECT_EVERY_TOPICS = 500

local function put_back(name, parts, before, written, is_new)
  local known, i = before ~= "" and cmsgpack.unpack(before) or {}, 0
  for part = 1, #parts do
    local keys = cmsgpack.unpack(parts[part])[1]
    for place = 1, math.min(#keys, written - i) do
      i = i + 1
      local old = known[i]
      if is_new[i] then
        call("HDEL", keys[place], name)
      elseif type(old) == "table" then
        call("HSET", keys[place], name, string.format('{"r":%.0f,"w":%.0f,"p":%.0f,"f":%.0f}', old.r, old.w, old.p, old.f))
      end
    end
  end
end

local function write_cells(name, parts, before, prefix_bytes)
  local pcall, packed, is_new, written, collected = redis.pcall, {}, {}, 0, 0
  for part = 1, #parts do
    local keys, queue_datas = unpack(cmsgpack.unpack(parts[part]))
    local topics = {}
    for i = 1, #keys do
      local added = pcall("HSET", keys[i], name, queue_datas[i])
      if added == 1 then
        topics[#topics + 1] = string.sub(keys[i], prefix_bytes + 1)
        is_new[written + i] = true
      elseif added ~= 0 then
        put_back(name, parts, before, written + i - 1, is_new)
        expect("hash", keys[i])
        error(added.err, 0)
      end
    end
    written = written + #keys
    if #topics > 0 then
      packed[#packed + 1] = cmsgpack.pack(topics)
    end
    keys, queue_datas, topics = nil, nil, nil
    if written - collected >= COLLECT_EVERY_TOPICS then
      collected = written
      collect()
    end
  end
  return packed
end
