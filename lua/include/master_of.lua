--[[ master_of: masterAddr and haServerAddr for the answer to a slave
  GIVES  master_of(cluster, broker_name, broker_id) -> masterAddr or "", haServerAddr or false; "", false for a master,
         and if no master is alive under the slave's cluster name ("" with compat 4.8) ]]
local function master_of(cluster, broker_name, broker_id)
  if broker_id == "0" then
    return "", false
  end
  local addr = call("HGET", P .. "broker:" .. broker_name, "0")
  local live = addr and call("HMGET", P .. "live:" .. cluster .. "|" .. addr, "counter", "ha")
  if not live or not live[1] then
    return "", false
  end
  return addr, live[2]
end
