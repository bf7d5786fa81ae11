--[[ emit: append one event to the change stream
  NEEDS  open, expect
  GIVES  emit(type, members): members is JSON object text without braces, starting with a comma, or "";
         seq afterwards is the event's
  USED BY every script that changes a table ]]
expect("stream", P .. "changes")

local function emit(kind, members)
  seq = call("HINCRBY", KEYS[1], "seq", 1)
  local event = '{"seq":' .. int(seq) .. ',"ms":' .. int(now_ms) .. ',"type":"' .. kind .. '"' .. members
  -- The bytes of all events so far stand in each: first and last then tell what the stream holds (trim_streams).
  call("XADD", P .. "changes", "MAXLEN", "~", changes_maxlen, "*", "e",
    event .. ',"at":' .. int(call("HINCRBY", KEYS[1], "changes_bytes", #event)) .. "}")
end
