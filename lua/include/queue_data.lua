--[[ queue_data: change the perm of every topic of a brokerName, with the event bodies of the change
  GIVES  plan_perms(broker_name, change, most, rest) -> event bodies (JSON text of the changed queue data, at most 500
         topics each), write(), rest. change(data, topic) returns the new queue data. plan_perms only reads; write()
         writes. most: about how many topics it reads, beginning at the given rest; nil: all topics. The returned rest
         is "" if no topic is left; else a later script continues with it.
         with_perm(data, change) -> the queue data with the perm change(perm)
         without_write(data) -> the queue data without the write permission ]]
--- @include "include/collect"
--- @include "include/rest"
local TOPICS_AT_ONCE = 250 -- half of an event's topics; see include/collect

local function with_perm(data, change)
  return (string.gsub(data, '("p":)(%-?%d+)', function(name, perm)
    return name .. int(change(tonumber(perm)))
  end))
end

local function without_write(data)
  return with_perm(data, function(perm)
    return bit.band(perm, bit.bnot(2))
  end)
end

local function plan_perms(broker_name, change, most, rest)
  local key, bodies, plan = P .. "queues:" .. broker_name, {}, {}
  local cursor, looked, body, cells = most and cursor_of(rest) or "0", 0, {}, {}
  local last_is_half = false
  local function flush()
    if #body > 0 then
      local text = table.concat(body, ",")
      if last_is_half then
        bodies[#bodies] = bodies[#bodies] .. "," .. text
      else
        bodies[#bodies + 1] = text
      end
      last_is_half = not last_is_half
      plan[#plan + 1] = cmsgpack.pack(cells) -- one text in memory, not two for each topic: see include/collect
      body, cells = {}, {}
    end
  end
  repeat
    local page = call("HSCAN", key, cursor, "COUNT", TOPICS_AT_ONCE)
    local flat = page[2]
    for i = 1, #flat, 2 do
      local data = change(flat[i + 1], flat[i])
      if data ~= flat[i + 1] then
        cells[#cells + 1] = flat[i]
        cells[#cells + 1] = data
        body[#body + 1] = cjson.encode(flat[i]) .. ":" .. data
        if #body == TOPICS_AT_ONCE then
          flush()
        end
      end
    end
    cursor, looked = page[1], looked + #flat / 2
    page, flat = nil, nil
    collect()
  until cursor == "0" or (most and looked >= most)
  flush()
  return bodies, function()
    for part = 1, #plan do
      call("HSET", key, unpack(cmsgpack.unpack(plan[part])))
      collect()
    end
  end, rest_of(cursor)
end
