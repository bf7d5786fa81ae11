--[[ emit: append one event to the change stream
  NEEDS  open, expect
  GIVES  emit(type, members): members is JSON object text without braces, starting with a comma, or "";
         seq afterwards is the event's
  USED BY every script that changes a table ]]
expect("stream", P .. "changes")
local changes_maxlen = call("HGET", KEYS[1], "changes_maxlen") or "200000"

local function emit(kind, members)
  seq = call("HINCRBY", KEYS[1], "seq", 1)
  call("XADD", P .. "changes", "MAXLEN", "~", changes_maxlen, "*", "e",
    '{"seq":' .. int(seq) .. ',"ms":' .. int(now_ms) .. ',"type":"' .. kind .. '"' .. members .. "}")
end
