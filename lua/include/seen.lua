--[[ seen: can brokers be heard at this moment? read only
  include/open gives seen_ms, when a process that hears brokers last renewed its lease, and up_since, when the last gap
  between such renewals ended.
  GIVES  heard: a renewal came within SEEN_GAP_MS, which is the time of three renewals.
         good_ms: the clock by which silence is measured. It is the clock of Redis while brokers are heard, and stands
         still in a gap; the renewal that ends the gap moves all deadlines by its length (keep_seen).
         gap_since(known): a gap has begun or ended since a lease renewal that returned known as up_since, "" = no
         renewal did. Then Redis may have stood still while a call of that process waited in its socket.
         Workers of front ends hear brokers, and so do brokers' processes that write to Redis themselves. A sweeper
         does not: while it runs alone, silence says nothing about a broker. When the clock has gone back, heard is
         false, too, until a renewal has corrected seen_ms. ]]
local SEEN_GAP_MS = 3000
-- Redis TIME may differ by some milliseconds after a failover: that is no step back of the clock
local STEP_BACK_MS = 100
local heard = now_ms <= seen_ms + SEEN_GAP_MS and now_ms >= seen_ms - STEP_BACK_MS
local good_ms = (heard or seen_ms == 0) and now_ms or seen_ms
local function gap_since(known)
  return known ~= "" and (not heard or up_since ~= tonumber(known))
end
