--[[ set_write_perm: take or give write permission for every topic of a brokerName (205, 327)
  KEYS[1] meta         HASH
  ARGV[1] broker_name
  ARGV[2] mode         "wipe": the write bit goes; "add": the perm becomes 6, whatever it was
  DERIVED broker-topics:<brokerName>, topic:<topic>, broker:<brokerName>
  RETURNS {"OK", seq, topics of the name}
  EVENTS  write_perm_set, in parts of 500 topics, when any perm changed
  REPEAT  no effect, the same count      COST O(topics of the name)
  SOURCE  RouteInfoManager.operateWritePermOfBroker; docs/semantics.md 14, 15 ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/collect"
--- @include "include/each_topics"
--- @include "include/queue_data"
--- @include "include/emit_topics"
local wipe = ARGV[2] == "wipe"
expect("hash", P .. "broker:" .. ARGV[1])
local count, bodies, write = plan_perms(ARGV[1], function(perm)
  return wipe and bit.band(perm, bit.bnot(2)) or 6
end)
if #bodies > 0 then
  write()
  emit_topics("write_perm_set", ARGV[1], "", bodies)
end
return {"OK", seq, count}
