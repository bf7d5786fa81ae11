--[[ queue_data: change the perm of every topic of a brokerName, and tell
  NEEDS  open, emit
  GIVES  set_perms(broker_name, change) -> topics in all, event bodies (JSON text of the changed queue data,
         at most 500 topics each); change(perm) returns the new perm. Writes the tables, emits nothing.
  USED BY remove_who, set_write_perm ]]
local function set_perms(broker_name, change)
  local topics = call("SMEMBERS", P .. "broker-topics:" .. broker_name)
  local bodies, body = {}, {}
  for i = 1, #topics do
    local key = P .. "topic:" .. topics[i]
    local data = call("HGET", key, broker_name)
    local perm = data and tonumber(string.match(data, '"p":(%-?%d+)'))
    if perm and change(perm) ~= perm then
      data = string.gsub(data, '"p":%-?%d+', '"p":' .. int(change(perm)))
      call("HSET", key, broker_name, data)
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
  return #topics, bodies
end
