--[[ keep_seen: note that brokers can be heard, and make up for the time in which they could not
  NEEDS  open, collect, seen
  GIVES  keep_seen(), and up_since afterwards.
         A gap is more than three lease renewals without one: Redis or all front ends were away or paused, or the clock
         jumped forward. The rule, for each broker that was not overdue when brokers were last heard:
           deadline = min(max(deadline, now) + length of the gap, now + its timeout)
         A gap extends each deadline by its own length only. A broker that was silent before is still removed, however
         often Redis pauses. And no broker is removed for a silence that nobody could have heard: after an outage or a
         restart of everything each broker has at least as much time to beat as the gap was long, after a long one a
         whole timeout. A broker that was overdue before the gap stays overdue. A silent broker stays only if the gaps
         last longer than the times between them.
         If the clock went back, the length of the gap is unknown: a deadline that lies further away than one timeout
         is moved to one timeout from now.
  USED BY renew_lease
  COST   O(1); after a gap O(brokers) ]]
local BROKERS_AT_ONCE = 250

local function keep_seen()
  if heard then
    if now_ms > seen_ms then
      call("HSET", KEYS[1], "seen_ms", int(now_ms))
    end
    return
  end
  local went_back, gap_ms = now_ms < seen_ms, now_ms - seen_ms
  local moved = {} -- first all are read: a deadline that is written has another rank
  local first, more = 0, true
  while more do
    local some = call("ZRANGE", P .. "deadlines", first, first + BROKERS_AT_ONCE - 1, "WITHSCORES")
    local pairs_of = {}
    first, more = first + BROKERS_AT_ONCE, #some > 0
    for i = 1, #some, 2 do
      local who, deadline = some[i], tonumber(some[i + 1])
      local whole = now_ms + tonumber(call("HGET", P .. "live:" .. who, "timeout_ms") or "0")
      local new = deadline
      if went_back then
        new = math.min(deadline, whole)
      elseif deadline > seen_ms then
        new = math.min(math.max(deadline, now_ms) + gap_ms, whole)
      end
      if new ~= deadline then
        pairs_of[#pairs_of + 1] = int(new)
        pairs_of[#pairs_of + 1] = who
      end
    end
    if #pairs_of > 0 then
      moved[#moved + 1] = cmsgpack.pack(pairs_of)
    end
    some, pairs_of = nil, nil
    collect()
  end
  up_since = now_ms
  call("HSET", KEYS[1], "seen_ms", int(now_ms), "up_since", int(now_ms))
  for part = 1, #moved do
    call("ZADD", P .. "deadlines", unpack(cmsgpack.unpack(moved[part])))
    collect()
  end
end
