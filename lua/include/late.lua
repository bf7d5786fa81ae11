--[[ late: an unregistration that is executed long after it was sent
  GIVES  heard_since(who, said_ago_ms): whether a sign of life of the broker came, over any connection, after it sent
         the unregistration. If so, the broker has come back, and the unregistration is ignored ]]
local function heard_since(who, said_ago_ms)
  local update_ms, ago_ms = call("HGET", P .. "live:" .. who, "update_ms"), tonumber(said_ago_ms or "0")
  return update_ms and ago_ms > 0 and now_ms - tonumber(update_ms) < ago_ms
end
