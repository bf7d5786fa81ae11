--[[ processes: the status that each process of the registry writes
  GIVES  check_processes(): checks the types of the keys that the functions below write
         tell_process(id, process): stores "<time> <process>"; process is JSON of registry/store/processes.py
         tell_peers(id, peers): stores the addresses of its brokers' connections (JSON)
         forget_process(id)
         forget_old_processes(): removes processes that wrote no status for an hour
  COST   O(1); forget_old_processes O(processes) ]]
--- @include "include/expect"
local PROCESS_KEPT_MS = 3600000

local function check_processes()
  expect("hash", P .. "processes", P .. "peers")
end

local function tell_process(id, process)
  call("HSET", P .. "processes", id, int(now_ms) .. " " .. process)
end

local function tell_peers(id, peers)
  call("HSET", P .. "peers", id, peers)
end

local function forget_process(id)
  call("HDEL", P .. "processes", id)
  call("HDEL", P .. "peers", id)
end

local function forget_old_processes()
  local told = call("HGETALL", P .. "processes")
  for i = 1, #told, 2 do
    if (tonumber(string.match(told[i + 1], "^%d+")) or 0) < now_ms - PROCESS_KEPT_MS then
      forget_process(told[i])
    end
  end
end
