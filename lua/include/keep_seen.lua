--[[ keep_seen: store the time of a lease renewal, and after a gap move the brokers' deadlines by the gap
  GIVES  keep_seen(); it sets up_since after a gap.
         A gap is a time in which three lease renewals in a row are missing: Redis or all front ends were away or
         paused, or the clock of Redis jumped. During a gap nobody can receive heartbeats, so the gap does not count as
         silence of a broker: all deadlines move by its length. A broker that was overdue before the gap stays overdue.
         A broker without a connection (include/disconnected) has time for one heartbeat after the end of the gap, but
         not beyond its deadline.
  COST   O(1); after a gap O(brokers) ]]
--- @include "include/collect"
--- @include "include/seen"
--- @include "include/disconnected"
local BROKERS_AT_ONCE = 250

-- A gap > 0 moves the latest deadlines first, a gap < 0 the earliest: so the other deadlines keep their ranks.
local function move(key, gap_ms)
  for first = 0, call("ZCARD", key) - 1, BROKERS_AT_ONCE do
    local from, to = first, first + BROKERS_AT_ONCE - 1
    if gap_ms > 0 then
      from, to = -to - 1, -from - 1
    end
    local some = call("ZRANGE", key, from, to, "WITHSCORES")
    for i = 1, #some, 2 do
      some[i], some[i + 1] = some[i + 1] + gap_ms, some[i] -- numbers: texts of them would take three times as long
    end
    call("ZADD", key, unpack(some))
    some = nil
    collect()
  end
end

local function raise(key, least_ms)
  repeat
    local some, count = call("ZRANGEBYSCORE", key, "-inf", "(" .. int(least_ms), "LIMIT", 0, BROKERS_AT_ONCE)
    count = #some
    for i = 1, count do
      call("ZADD", key, int(least_ms), some[i])
    end
    some = nil
    collect()
  until count == 0
end

local function keep_seen()
  if heard then
    if now_ms > seen_ms then
      call("HSET", KEYS[1], "seen_ms", int(now_ms))
    end
    return
  end
  up_since = now_ms
  call("HSET", KEYS[1], "seen_ms", int(now_ms), "up_since", int(now_ms))
  if seen_ms > 0 then
    move(P .. "deadlines", now_ms - seen_ms)
    move(P .. "disconnected", now_ms - seen_ms)
    raise(P .. "disconnected", now_ms + BEAT_MS + LATE_MS)
  end
end
