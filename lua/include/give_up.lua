--[[ give_up: delete the channel entries of a worker that is dead, or is shutting down
  NEEDS  open, hash, remove_who
  GIVES  give_up(incarnation, limit, removed) -> entries taken, whether there is more. It takes at most limit entries.
         If a broker has no connection left, and one of them was seen closing, it is removed and appended to removed;
         else it lives on until its deadline or its next beat. Brokers for whose topics there is no room any more
         (include/wiping) wait, but the first one.
         A front end "direct:..." is a broker's own process, which writes to Redis itself. The end of any other front
         end says nothing about its brokers; the end of this one is the close of the broker's connection.
  USED BY reap_worker, release_channels ]]
local most = room
local function give_up(incarnation, limit, removed)
  local held, taken = P .. "held:" .. incarnation, 0
  while taken < limit do
    local who = call("SRANDMEMBER", held)
    if not who then
      return taken, false
    end
    local key, live_key = P .. "channels:" .. who, P .. "live:" .. who
    local own, others, direct = {}, 0, false
    for front_end, channel in pairs(hash(key)) do
      if string.match(channel, "^[^/]*") == incarnation then
        own[#own + 1] = front_end
        direct = direct or string.sub(front_end, 1, 7) == "direct:"
      else
        others = others + 1
      end
    end
    local live = call("EXISTS", live_key) == 1
    if others == 0 and live and (direct or call("HEXISTS", live_key, "closed_at") == 1) then
      local topics = topics_of(who)
      if topics > room and topics <= most and #removed > 0 then
        return taken, true
      end
      remove_who(who, "broker_reaped")
      removed[#removed + 1] = who
    else
      for i = 1, #own do
        call("HDEL", key, own[i])
      end
      if direct and live then
        call("HSET", live_key, "closed_at", int(now_ms))
      end
    end
    call("SREM", held, who)
    taken = taken + 1
  end
  return taken, call("EXISTS", held) == 1
end
