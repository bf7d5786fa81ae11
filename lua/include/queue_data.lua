--[[ queue_data: change the perm of every topic of a brokerName, and tell
  NEEDS  open
  GIVES  plan_perms(broker_name, change) -> topics in all, event bodies (JSON text of the changed queue data, at
         most 500 topics each), write(); change(perm) returns the new perm. Only write() writes.
  USED BY remove_who, set_write_perm ]]
local function plan_perms(broker_name, change)
  local topics = call("SMEMBERS", P .. "broker-topics:" .. broker_name)
  local bodies, body, keys, datas = {}, {}, {}, {}
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
      if #body == 500 then
        bodies[#bodies + 1] = table.concat(body, ",")
        body = {}
      end
    end
  end
  if #body > 0 then
    bodies[#bodies + 1] = table.concat(body, ",")
  end
  return #topics, bodies, function()
    for i = 1, #keys do
      call("HSET", keys[i], broker_name, datas[i])
    end
  end
end
