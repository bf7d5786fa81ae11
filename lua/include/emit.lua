--[[ emit: append one event to the change stream
  NEEDS  open, expect
  GIVES  emit(type, members): members is JSON object text without braces, starting with a comma, or "";
         seq afterwards is the event's
  USED BY every script that changes a table ]]
expect("stream", P .. "changes")

local changes_maxlen, changes_bytes = string.match(stream_limits, "^%d+"), nil

local function emit(kind, members)
  seq = seq + 1
  local event = '{"seq":' .. int(seq) .. ',"ms":' .. int(now_ms) .. ',"type":"' .. kind .. '"' .. members
  -- The bytes of all events so far stand in each: first and last then tell what the stream holds (trim_streams).
  changes_bytes = (changes_bytes or tonumber(call("HGET", KEYS[1], "changes_bytes") or "0")) + #event
  call("HSET", KEYS[1], "seq", int(seq), "changes_bytes", int(changes_bytes))
  call("XADD", P .. "changes", "MAXLEN", "~", changes_maxlen, "*", "e",
    event .. ',"at":' .. int(changes_bytes) .. "}")
end
