--[[ emit: append one event to the change stream
  NEEDS  open, expect; after the arguments that the script's header names one more, always the last: who caused it, as
         JSON ({"how":...}, registry/events/by.py). It is taken off ARGV here, so a script sees only its own arguments
  GIVES  emit(type, members, topics): members is JSON object text without braces, starting with a comma, or "";
         topics is JSON object text without braces, may be long, or nil; seq afterwards is the event's
  USED BY every script that changes a table ]]
expect("stream", P .. "changes")
local by = table.remove(ARGV)
if string.sub(by or "", 1, 8) ~= '{"how":"' then
  return redis.error_reply("MQBY the last argument is not who caused it: call the script through registry/store/store.py")
end

local changes_maxlen, changes_bytes = string.match(stream_limits, "^%d+"), nil

local function emit(kind, members, topics)
  seq = seq + 1
  local head = '{"seq":' .. int(seq) .. ',"ms":' .. int(now_ms) .. ',"type":"' .. kind .. '","by":' .. by .. members
    .. (topics and ',"topics":{' or "")
  local tail = topics and "}" or ""
  topics = topics or ""
  -- The bytes of all events so far stand in each: first and last then tell what the stream holds (trim_streams).
  changes_bytes = (changes_bytes or tonumber(call("HGET", KEYS[1], "changes_bytes") or "0")) + #head + #topics + #tail
  local id = call("XADD", P .. "changes", "MAXLEN", "~", changes_maxlen, "*", "e",
    head .. topics .. tail .. ',"at":' .. int(changes_bytes) .. "}") -- in one go: topics may be 26 kB
  call("HSET", KEYS[1], "seq", int(seq), "changes_bytes", int(changes_bytes), "last_change", id)
end
