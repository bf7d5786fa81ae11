--[[ finish_wipe: complete a wipe of write permission (include/wiping), so that the brokerName can register
  KEYS[1] meta         HASH
  ARGV[1] broker_name
  ARGV[2] topics       int   the most topics that this call changes
  DERIVED wiping, queues:<brokerName>, broker:<brokerName>
  RETURNS {seq, more 0|1}
  EVENTS  write_perm_set, in parts of 500 topics, when a topic still had write permission
  REPEAT  no effect      COST O(topics) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/wiping"
local name = ARGV[1]
room = tonumber(ARGV[2])
expect("hash", P .. "broker:" .. name, P .. "queues:" .. name)
local is_left = call("HEXISTS", P .. "wiping", name) == 1
return {seq, is_left and not wipe_on(name) and 1 or 0}
