--[[ queue_data: change the perm of every topic of a brokerName, and tell
  NEEDS  open, collect, each_topics
  GIVES  plan_perms(broker_name, change, most, rest) -> event bodies (JSON text of the changed queue data, at most 500
         topics each), write(), rest; change(perm) returns the new perm. Only write() writes. It looks at about most
         topics, nil: at all. rest "": those were all; else a later script goes on with it.
  USED BY wiping, set_write_perm ]]
local function plan_perms(broker_name, change, most, rest)
  local bodies, plan, last_is_half = {}, {}, false
  -- A cursor means something to the server alone that gave it: after a failover it is begun anew.
  local server = most and string.match(call("INFO", "server"), "run_id:(%x+)") or ""
  local of, cursor = string.match(rest or "", "^(%x*) (%d+)$")
  cursor = each_topics(broker_name, function(topics)
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
  end, of == server and cursor or nil, most)
  return bodies, function()
    for part = 1, #plan do
      local keys, datas = unpack(cmsgpack.unpack(plan[part]))
      for i = 1, #keys do
        call("HSET", keys[i], broker_name, datas[i])
      end
      collect()
    end
  end, cursor ~= "0" and server .. " " .. cursor or ""
end
