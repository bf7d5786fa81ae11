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

local changes_maxlen, changes_bytes, chain = string.match(stream_limits, "^%d+"), nil, nil

local function emit(kind, members, topics)
  if not chain then
    local kept = call("HMGET", KEYS[1], "changes_bytes", "chain")
    changes_bytes, chain = tonumber(kept[1] or "0"), kept[2] or epoch
  end
  seq, topics = seq + 1, topics and ',"topics":{' .. topics .. "}" or ""
  local body = ',"type":"' .. kind .. '","by":' .. by .. members
  -- A hash of this event and of the chain before it: two histories that have it are the same up to here. So a reader
  -- finds where the history of a Redis that went back, and then went on otherwise, leaves the one that it knows.
  chain = string.sub(redis.sha1hex(chain .. int(now_ms) .. body .. #topics), 1, 16)
  body = '{"seq":' .. int(seq) .. ',"ms":' .. int(now_ms) .. ',"chain":"' .. chain .. '"' .. body
  -- The bytes of all events so far stand in each: first and last then tell what the stream holds (trim_streams).
  changes_bytes = changes_bytes + #body + #topics
  local id = call("XADD", P .. "changes", "MAXLEN", "~", changes_maxlen, "*", "e",
    body .. topics .. ',"at":' .. int(changes_bytes) .. "}") -- in one go: topics may be 26 kB
  call("HSET", KEYS[1], "seq", int(seq), "chain", chain, "changes_bytes", int(changes_bytes), "last_change", id)
end
