--[[ clear_broker: do what is left of a removal, so that the brokerName can register
  KEYS[1] meta         HASH
  ARGV[1] broker_name
  ARGV[2] topics       int   topics a call
  DERIVED leaving, wiping, broker-topics:<brokerName>, topic:<topic>, topics, broker:<brokerName>
  RETURNS {seq, more 0|1}
  EVENTS  write_perm_set, in parts of 500 topics, where write permission is left
  REPEAT  no effect      COST O(topics) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/in_chunks"
--- @include "include/emptied"
--- @include "include/collect"
--- @include "include/each_topics"
--- @include "include/queue_data"
--- @include "include/emit_topics"
--- @include "include/leaving"
--- @include "include/wiping"
local name, more = ARGV[1], false
room = tonumber(ARGV[2])
expect("hash", P .. "broker:" .. name)
if call("HEXISTS", P .. "leaving", name) == 1 then
  more = not clear_name(name)
elseif call("HEXISTS", P .. "wiping", name) == 1 then
  more = not wipe_on(name)
end
return {seq, more and 1 or 0}
