--[[ keep_seen: note that brokers can be heard, and make up for the time in which they could not
  NEEDS  open, in_chunks, seen
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
local function keep_seen()
  if heard then
    if now_ms > seen_ms then
      call("HSET", KEYS[1], "seen_ms", int(now_ms))
    end
    return
  end
  local went_back, gap_ms = now_ms < seen_ms, now_ms - seen_ms
  local deadlines, moved = call("ZRANGE", P .. "deadlines", 0, -1, "WITHSCORES"), {}
  for i = 1, #deadlines, 2 do
    local who, deadline = deadlines[i], tonumber(deadlines[i + 1])
    local whole = now_ms + tonumber(call("HGET", P .. "live:" .. who, "timeout_ms") or "0")
    local new = deadline
    if went_back then
      new = math.min(deadline, whole)
    elseif deadline > seen_ms then
      new = math.min(math.max(deadline, now_ms) + gap_ms, whole)
    end
    if new ~= deadline then
      moved[#moved + 1] = int(new)
      moved[#moved + 1] = who
    end
  end
  up_since = now_ms
  call("HSET", KEYS[1], "seen_ms", int(now_ms), "up_since", int(now_ms), "shifted_at", int(now_ms))
  in_chunks("ZADD", P .. "deadlines", moved)
end
