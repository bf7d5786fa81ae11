--[[ heard: append one entry to the heartbeat stream
  GIVES  heard(who, broker_name, front_end, kind, since_ms, bytes): broker_name "": the heartbeat has none; kind: same,
         changed, refused or touch; since_ms: the broker's previous heartbeat at any front end (nil = none).
         The entry's schema: registry/events/journal.py ]]
--- @include "include/expect"
expect("stream", P .. "heartbeats")
local heartbeats_maxlen = string.match(stream_limits, "^%d+ (%d+)")

local function heard(who, broker_name, front_end, kind, since_ms, bytes)
  local interval = since_ms and (now_ms - tonumber(since_ms)) or -1
  call("XADD", P .. "heartbeats", "MAXLEN", "~", heartbeats_maxlen, "*", "e",
    '{"ms":' .. int(now_ms) .. ',"who":' .. cjson.encode(who)
    .. (broker_name ~= "" and (',"broker_name":' .. cjson.encode(broker_name)) or "")
    .. ',"front_end":' .. cjson.encode(front_end)
    .. ',"kind":"' .. kind .. '","interval_ms":' .. int(interval) .. ',"bytes":' .. bytes .. "}")
end
