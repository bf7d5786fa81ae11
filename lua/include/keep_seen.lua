--[[ keep_seen: note that brokers can be heard, and move deadlines by the time in which they could not
  GIVES  keep_seen(), and up_since afterwards.
         A gap is more than three lease renewals without one: Redis or all front ends were away or paused, or the clock
         of Redis jumped, forward or back. All deadlines move by its length, so each broker has as much time left as
         before it; an overdue broker stays overdue. So only time in which brokers could be heard counts as silence: a
         live broker beats several times within its timeout, and a dead one is removed after it, however many gaps there
         are.
         A broker without a connection (include/disconnected) may beat once after the end of the gap, if its deadline
         allows.
  COST   O(1); after a gap O(brokers) ]]
--- @include "include/collect"
--- @include "include/seen"
--- @include "include/disconnected"
local BROKERS_AT_ONCE = 250

-- Start with the latest deadlines if they move later, else with the earliest: so those not yet moved keep their ranks.
local function move(key, gap_ms)
  for first = 0, call("ZCARD", key) - 1, BROKERS_AT_ONCE do
    local from, to = first, first + BROKERS_AT_ONCE - 1
    if gap_ms > 0 then
      from, to = -to - 1, -from - 1
    end
    local some = call("ZRANGE", key, from, to, "WITHSCORES")
    for i = 1, #some, 2 do
      some[i], some[i + 1] = int(tonumber(some[i + 1]) + gap_ms), some[i]
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
