--[[ liveness: store a heartbeat, and the channel (connection) that it came over
  GIVES  check_liveness(who, channel): checks the types of the keys that refresh and attach write
         refresh(who, timeout_ms, closed_at, update_ms): sets last update, beat with its TTL, deadline and the time
         between heartbeats; deletes closed_at. closed_at, update_ms: their present values
         attach(who, front_end, channel, only_if_none): channel is "<worker incarnation>/<connection>@b<opened_ms>".
         A broker has one channel for each front end. Of two connections to one worker, the connection of the last
         registration wins; of two connections to different workers, the younger one (opened_ms, by the machine's
         monotonic clock). Otherwise a paused worker that reads old bytes of an abandoned connection would take over
         the broker, and remove it when that connection closes. ]]
--- @include "include/expect"
--- @include "include/seen"
-- A broker sends each heartbeat to all front ends within this time.
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
    redis.pcall("ZREM", P .. "disconnected", who) -- pcall: if it fails, expire_brokers ignores the entry
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
    call("SREM", P .. "held:" .. holder, who)
  end
  call("HSET", key, front_end, channel)
  call("SADD", P .. "held:" .. incarnation, who)
  -- also a worker without lease is in leases: so reap_worker finds its channels
  call("SADD", P .. "leases", incarnation)
end
