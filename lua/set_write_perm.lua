--[[ set_write_perm: take or give write permission for the topics of a brokerName (205, 327), some with each call
  Other changes may come between two calls. A topic that the name has during all calls is changed.
  KEYS[1] meta         HASH
  ARGV[1] broker_name
  ARGV[2] mode         "wipe": remove the write bit; "add": the perm becomes 6; "give": the given
                       topics get the write bit, and the others stay as they are
  ARGV[3] topics       int   about how many topics this call reads
  ARGV[4] rest         "" in the first call; then the rest that the previous call returned
  ARGV[5] owner        the caller and his checked resources, see include/owner
  ARGV[6] given        MessagePack array of topics, used by "give"
  DERIVED queues:<brokerName>, broker:<brokerName>, wiping
  RETURNS {"OK", seq, topics of the name, rest}; rest "": no topic is left, else call again with it
          {"ASK", seq, resource}: this call changed nothing, see include/owner
  EVENTS  write_perm_set, in parts of 500 topics, when any perm changed; each call is a change of its own
  REPEAT  no effect, the same count      COST O(topics)
  SOURCE  RouteInfoManager.operateWritePermOfBroker; docs/semantics.md 14, 15 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/queue_data"
--- @include "include/keep_registered"
--- @include "include/emit_topics"
--- @include "include/owner"
local name, mode, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
expect("hash", P .. "broker:" .. name, P .. "queues:" .. name, P .. "wiping")
if call("EXISTS", P .. "broker:" .. name) == 0 then
  return {"OK", seq, 0, ""}
end
local asks = ask_for(ARGV[5], {"cluster:" .. (call("HGET", P .. "broker:" .. name, "cluster") or "")})
if asks then
  return asks
end
local count = call("HLEN", P .. "queues:" .. name)
local given = {}
for _, topic in ipairs(mode == "give" and cmsgpack.unpack(ARGV[6]) or {}) do
  given[topic] = true
end
local bodies, write, rest = plan_perms(name, function(data, topic)
  if mode == "give" and not given[topic] then
    return data
  end
  local changed = mode == "wipe" and without_write(data) or with_perm(data, function(perm)
    return mode == "add" and 6 or bit.bor(perm, 2)
  end)
  return changed == data and data or keep_registered(changed, data)
end, count > most and most or nil, ARGV[4])
if mode ~= "wipe" then
  call("HDEL", P .. "wiping", name) -- this change is newer than the unfinished wipe
end
if #bodies > 0 then
  write()
  emit_topics("write_perm_set", name, "", bodies)
end
return {"OK", seq, count, rest}
