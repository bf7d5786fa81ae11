--[[ release_channels: a draining worker gives up its channels without removing any broker
  KEYS[1] meta         HASH
  ARGV[1] incarnation
  ARGV[2] limit        int   brokers a call, 1..1000
  DERIVED held:<incarnation>, channels:<who>, lease:<incarnation>, leases
  RETURNS {seq, more 0|1}
  EVENTS  none
  REPEAT  no effect      COST O(limit) ]]
--- @include "include/open"
--- @include "include/hash"
local held = P .. "held:" .. ARGV[1]
local whos = call("SPOP", held, ARGV[2])
for i = 1, #whos do
  local key = P .. "channels:" .. whos[i]
  for front_end, channel in pairs(hash(key)) do
    if string.match(channel, "^[^/]*") == ARGV[1] then
      call("HDEL", key, front_end)
    end
  end
end
local more = call("EXISTS", held)
if more == 0 then
  call("DEL", P .. "lease:" .. ARGV[1])
  call("SREM", P .. "leases", ARGV[1])
end
return {seq, more}
