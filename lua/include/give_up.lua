--[[ give_up: delete the channel entries of a worker that is dead, or is shutting down
  GIVES  give_up(incarnation, limit) -> entries deleted, whether there is more. It deletes at most limit entries, and
         removes no broker: a live broker sends heartbeats through other front ends; for a broker without other entries
         see include/disconnected.
         A front end "direct:..." is a broker's own process, which writes to Redis itself: if it ends, the broker has
         ended. The end of any other front end says nothing about its brokers. ]]
--- @include "include/hash"
--- @include "include/disconnected"
local function give_up(incarnation, limit)
  local held = P .. "held:" .. incarnation
  local whos = call("SRANDMEMBER", held, limit)
  for i = 1, #whos do
    local who, others, direct = whos[i], 0, false
    local key, live_key = P .. "channels:" .. who, P .. "live:" .. who
    local own = {}
    for front_end, channel in pairs(hash(key)) do
      if string.match(channel, "^[^/]*") == incarnation then
        own[#own + 1] = front_end
        direct = direct or string.sub(front_end, 1, 7) == "direct:"
      else
        others = others + 1
      end
    end
    if #own > 0 then
      local live = call("EXISTS", live_key) == 1
      call("HDEL", key, unpack(own))
      if direct and live then
        call("HSET", live_key, "closed_at", int(now_ms), "closed_as", "ended")
      end
      if others == 0 and live then
        disconnect(who, direct)
      end
    end
    call("SREM", held, who)
  end
  return #whos, call("EXISTS", held) == 1
end
