--[[ queue_data: change the perm of every topic of a brokerName, and tell
  NEEDS  open, collect, each_topics
  GIVES  plan_perms(broker_name, change) -> topics in all, event bodies (JSON text of the changed queue data, at
         most 500 topics each), write(); change(perm) returns the new perm. Only write() writes.
  USED BY remove_who, set_write_perm ]]
local function plan_perms(broker_name, change)
  local bodies, plan, last_is_half = {}, {}, false
  each_topics(broker_name, function(topics)
    local body, keys, datas = {}, {}, {}
    for i = 1, #topics do
      local key = P .. "topic:" .. topics[i]
      local data = call("HGET", key, broker_name)
      local perm = data and tonumber(string.match(data, '"p":(%-?%d+)'))
      local new_perm = perm and change(perm)
      if new_perm ~= perm then
        data = string.gsub(data, '"p":%-?%d+', '"p":' .. int(new_perm))
        keys[#keys + 1] = key
        datas[#datas + 1] = data
        body[#body + 1] = cjson.encode(topics[i]) .. ":" .. data
      end
    end
    if #body > 0 then
      local text = table.concat(body, ",")
      if last_is_half then
        bodies[#bodies] = bodies[#bodies] .. "," .. text
      else
        bodies[#bodies + 1] = text
      end
      last_is_half = not last_is_half
      plan[#plan + 1] = cmsgpack.pack({keys, datas}) -- one text instead of two a topic: see collect
    end
  end)
  return call("SCARD", P .. "broker-topics:" .. broker_name), bodies, function()
    for part = 1, #plan do
      local keys, datas = unpack(cmsgpack.unpack(plan[part]))
      for i = 1, #keys do
        call("HSET", keys[i], broker_name, datas[i])
      end
      collect()
    end
  end
end
