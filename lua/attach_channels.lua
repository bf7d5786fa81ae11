--[[ attach_channels: a worker whose lease had run out takes its brokers' channels again
  KEYS[1] meta       HASH
  ARGV[1] front_end
  ARGV[2...] pairs of who and channel
  DERIVED channels:<who>, held:, leases, live:<who>
  RETURNS {seq, attached}; left out: brokers that are not known (any more), and those that came back through
          another worker of this front end meanwhile
  EVENTS  none
  REPEAT  the same      COST O(pairs) ]]
--- @include "include/open"
--- @include "include/liveness"
local attached = 0
for i = 2, #ARGV, 2 do
  if call("EXISTS", P .. "live:" .. ARGV[i]) == 1 then
    attach(ARGV[i], ARGV[1], ARGV[i + 1], true)
    attached = attached + 1
  end
end
return {seq, attached}
