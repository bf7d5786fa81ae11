--[[ heard: one entry on the heartbeat stream
  NEEDS  open, expect
  GIVES  heard(who, front_end, kind, since_ms, bytes): kind is same, changed, refused or touch;
         since_ms is the previous sign of life ("0" = none)
  USED BY heartbeat, register_broker, touch_broker ]]
expect("stream", P .. "heartbeats")

local function heard(who, front_end, kind, since_ms, bytes)
  local interval = since_ms and (now_ms - tonumber(since_ms)) or -1
  call("XADD", P .. "heartbeats", "MAXLEN", "~", 200000, "*", "e",
    '{"ms":' .. int(now_ms) .. ',"who":' .. cjson.encode(who) .. ',"front_end":' .. cjson.encode(front_end)
    .. ',"kind":"' .. kind .. '","interval_ms":' .. int(interval) .. ',"bytes":' .. bytes .. "}")
end
