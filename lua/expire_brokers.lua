--[[ expire_brokers: remove brokers whose heartbeat is overdue; the only script that removes silent brokers
  KEYS[1] meta       HASH
  ARGV[1] limit      int   the most brokers that this call removes, 1..1000
  ARGV[2] topics     int   the most topics that lose write permission in this call; later calls do the rest
                     (include/wiping)
  DERIVED every table of the namespace
  RETURNS {seq, next deadline (ms, "" = none), now (ms), heard 0|1, more 0|1, reaped, who...}: the removed brokers; the
          first `reaped` of them got broker_reaped. more: a limit was reached, or topics are left: call again.
          heard 0: a gap (include/seen); no broker is removed, and next deadline says when to look again
  EVENTS  one for each row that had the broker: broker_expired: it was silent; broker_reaped: it closed a connection,
          the process with its last connection ended, and it sent no heartbeat since. write_perm_set for topics that
          an earlier removal left
  REPEAT  no effect      COST O(limit + topics)
  SOURCE  RouteInfoManager.scanNotActiveBroker; which silence counts: include/seen, include/disconnected ]]
--- @include "include/open"
--- @include "include/wiping"
--- @include "include/remove_who"
--- @include "include/seen"
local LOOK_AGAIN_MS = 1000
local limit, most, removed, reaped, more = math.min(1000, tonumber(ARGV[1])), tonumber(ARGV[2]), {}, 0, false
room = most
if not heard then
  more = not wipe_names()
  local somebody = call("EXISTS", P .. "deadlines") == 1
  return {seq, somebody and int(now_ms + LOOK_AGAIN_MS) or "", int(now_ms), 0, more and 1 or 0, 0}
end
local function overdue(key)
  return call("ZRANGEBYSCORE", P .. key, "-inf", int(now_ms), "LIMIT", 0, limit - #removed)
end
local function first_of(key)
  return tonumber(call("ZRANGE", P .. key, 0, 0, "WITHSCORES")[2])
end
local function remove(who, closed_as)
  local topics = topics_of(who)
  if topics > room and topics <= most and #removed > 0 then
    more = true -- the next call removes it
  elseif closed_as ~= "" then
    remove_who(who, "broker_reaped", closed_as)
    reaped = reaped + 1
    table.insert(removed, reaped, who)
  else
    remove_who(who, "broker_expired", "silence")
    removed[#removed + 1] = who
  end
end
local due = overdue("disconnected")
local looked_at = #due
for i = 1, #due do
  local closed = call("HMGET", P .. "live:" .. due[i], "closed_at", "closed_as")
  if not closed[1] or call("EXISTS", P .. "channels:" .. due[i]) == 1 then
    call("ZREM", P .. "disconnected", due[i]) -- it has a connection again, sent a heartbeat, or is gone
  elseif not more then
    remove(due[i], closed[2] or "")
  end
end
due = more and {} or overdue("deadlines")
for i = 1, #due do
  if not more then
    remove(due[i], "")
  end
end
more = more or looked_at + #due >= limit
-- no wipe after a removal in the same call: a wipe checks the types of keys, and checks come before the first write
if #removed > 0 then
  more = more or call("EXISTS", P .. "wiping") == 1
else
  more = not wipe_names() or more
end
local first = math.min(first_of("deadlines") or math.huge, first_of("disconnected") or math.huge)
return {seq, first < math.huge and int(first) or "", int(now_ms), 1, more and 1 or 0, reaped, unpack(removed)}
