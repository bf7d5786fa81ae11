--[[ write_cells: many topics' queue data of one brokerName, all or nothing
  NEEDS  open, expect
  GIVES  write_cells(name, parts, before, prefix_bytes) -> the topics that the name did not have. A key of another type is
         an error that names it, and every key is as it was. parts (cells) and before are MessagePack, see
         register_broker; keys begin with prefix_bytes that are no part of the topic. One call a topic: ten thousand of
         them are what a large registration costs.
  USED BY register_broker ]]

-- Lua hashes only every second character of a text of 32 to 63 and finds equal ones by walking through all that have
-- the same hash: keys with numbers at their end are a hundred to one hash when ten thousand of them are alive. So they
-- come by parts, and those of some parts go before the next ones come.
local COLLECT_EVERY_TOPICS = 1000
local WHOLE_HEAP_KB = 100000 -- to the end of a cycle; a full collection would go over everything twice
local try = pcall
local function collect()
  collectgarbage("step", WHOLE_HEAP_KB) -- Redis has it; what only speaks like Redis may not
end

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
  local pcall, topics, is_new, written, collected = redis.pcall, {}, {}, 0, 0
  for part = 1, #parts do
    local keys, queue_datas = unpack(cmsgpack.unpack(parts[part]))
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
    keys, queue_datas = nil, nil
    if written - collected >= COLLECT_EVERY_TOPICS then
      collected = written
      try(collect)
    end
  end
  return topics
end
