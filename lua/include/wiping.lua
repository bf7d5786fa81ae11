--[[ wiping: take the write permission of a brokerName that lost its last master, in several steps if it has many topics
  GIVES  room: how many topics this script may still change, so that it takes Redis some 30 ms at most
         plan_wipe(name, nil) -> event bodies of at most room topics, write(); write() also enters the name into the
         HASH wiping if topics are left
         wipe_on(name): continues the wipe of a name -> whether no topic is left
         wipe_names(): continues the wipes of all names -> whether no topic is left
         expire_brokers continues a wipe, and finish_wipe completes it before the name registers. Until then the topics
         that are left keep their write permission. A request 217 may set it, but the wipe removes it.
  EVENTS write_perm_set for each step except the first, whose topics are in the event that removed the master ]]
--- @include "include/expect"
--- @include "include/queue_data"
--- @include "include/emit_topics"
local room = 3000
expect("hash", P .. "wiping")

local function plan_wipe(name, rest)
  expect("hash", P .. "queues:" .. name)
  local count = call("HLEN", P .. "queues:" .. name)
  local most = count > room and math.max(1, room) or nil
  local bodies, write_perms
  bodies, write_perms, rest = plan_perms(name, without_write, most, rest)
  room = room - math.min(count, most or count)
  return bodies, function()
    write_perms()
    if rest ~= "" then
      call("HSET", P .. "wiping", name, rest)
    else
      call("HDEL", P .. "wiping", name)
    end
  end, rest
end

local function wipe_on(name)
  if call("EXISTS", P .. "broker:" .. name) == 0 then
    call("HDEL", P .. "wiping", name)
    return true
  end
  local bodies, write, rest = plan_wipe(name, call("HGET", P .. "wiping", name))
  write()
  if #bodies > 0 then
    emit_topics("write_perm_set", name, "", bodies)
  end
  return rest == ""
end

local function wipe_names()
  local names = call("HKEYS", P .. "wiping")
  for i = 1, #names do
    if room <= 0 or not wipe_on(names[i]) then
      return false
    end
  end
  return true
end
