--[[ liveness: a sign of life, and the channel it came over
  GIVES  check_liveness(who, channel): checks the types of the keys that the other two write
         refresh(who, timeout_ms, closed_at, update_ms): last update, beat with its TTL, deadline, and how long the
         broker takes between beats; forgets closed connections. closed_at, update_ms: as read
         attach(who, front_end, channel, only_if_none): channel is "<worker incarnation>/<connection>@b<opened_ms>".
         One entry a front end: within one worker the last registration's connection wins; between two workers
         the younger connection wins, by the machine's monotonic clock. Otherwise a worker that was paused
         could process old bytes of a connection that the broker has abandoned. It would take over the broker, and
         then remove it when that connection closes. ]]
--- @include "include/expect"
--- @include "include/seen"
-- A broker sends each beat to all front ends, one soon after the other.
local SAME_BEAT_MS = 1000

local function check_liveness(who, channel)
  expect("zset", P .. "deadlines")
  if channel ~= "" then
    expect("hash", P .. "channels:" .. who)
    expect("set", P .. "leases", P .. "held:" .. string.match(channel, "^[^/]*"))
  end
end

local function refresh(who, timeout_ms, closed_at, update_ms)
  local key = P .. "live:" .. who
  local period_ms = update_ms and now_ms - tonumber(update_ms) or 0
  if period_ms > SAME_BEAT_MS then
    call("HSET", key, "update_ms", int(now_ms), "period_ms", int(period_ms))
  else
    call("HSET", key, "update_ms", int(now_ms))
  end
  if closed_at then
    call("HDEL", key, "closed_at", "closed_as")
    redis.pcall("ZREM", P .. "disconnected", who) -- expire_brokers ignores a broker that is left in it
  end
  call("SET", P .. "beat:" .. who, int(now_ms), "PX", timeout_ms)
  call("ZADD", P .. "deadlines", int(good_ms + timeout_ms), who)
end

local function opened_ms(channel)
  return tonumber(string.match(channel, "@b(%d+)$"))
end

local function attach(who, front_end, channel, only_if_none)
  if channel == "" then
    return
  end
  local key = P .. "channels:" .. who
  local present = call("HGET", key, front_end)
  if present == channel or (present and only_if_none) then
    return
  end
  local incarnation = string.match(channel, "^[^/]*")
  local holder = present and string.match(present, "^[^/]*")
  if holder and holder ~= incarnation then
    local there, new = opened_ms(present), opened_ms(channel)
    if there and new and there > new and call("EXISTS", P .. "lease:" .. holder) == 1 then
      return
    end
    -- a broker that comes back through another worker is no longer held by the first
    call("SREM", P .. "held:" .. holder, who)
  end
  call("HSET", key, front_end, channel)
  call("SADD", P .. "held:" .. incarnation, who)
  -- without its lease the worker is listed all the same, so that the reaper finds what it left
  call("SADD", P .. "leases", incarnation)
end
