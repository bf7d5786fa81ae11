--[[ attach_channels: a worker whose lease had run out enters the channels of its brokers again
  KEYS[1] meta       HASH
  ARGV[1] front_end
  ARGV[2...] pairs of who and channel
  DERIVED channels:<who>, held:, leases, live:<who>
  RETURNS {seq, attached}; unknown brokers are left out. If another worker of this front end has taken over a broker,
          its channel stays
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
