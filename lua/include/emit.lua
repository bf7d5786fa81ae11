--[[ emit: append one event to the change stream
  A script that includes emit has one more argument than its header says: the author of the change, as JSON
  ({"how":...}, registry/events/by.py). emit removes this argument from ARGV.
  Before the JSON, the argument may have "<epoch> <seq> <chain> <entry id> ", the last change that the caller knows: if
  Redis has lost this change, the script ends with the error MQLOST and writes nothing. A worker that restores lost
  changes sends "knew <losses> <seq> " instead; its events have these numbers as the member knew.
  GIVES  emit(type, members, topics): members are JSON members, each with a comma before it, or ""; topics are the
         members of the event's topics, or nil. It sets seq to the seq of the event ]]
--- @include "include/expect"
expect("stream", P .. "changes")
local known, by = string.match(table.remove(ARGV) or "", '^([^{]*)({"how":".*)$')
if not by then
  return redis.error_reply("MQBY the last argument is not the author: call the script through registry/store/store.py")
end
local changes_maxlen, told = string.match(stream_limits, "^%d+"), call("HMGET", KEYS[1], "changes_bytes", "chain")
local changes_bytes, chain = tonumber(told[1] or "0"), told[2] or epoch
local knew = string.gsub(string.match(known, "^knew (%d+ %d+) $") or "", " ", ",")
local known_epoch, known_seq, known_chain, known_id = string.match(known, "^(%S+) (%d+) (%S+) (%S+) $")
if known_epoch and (known_epoch ~= epoch or known_chain ~= chain) then
  local function is_kept()
    local found = call("XRANGE", P .. "changes", known_id, known_id)[1]
    if found then
      return string.find(string.sub(found[2][2], 1, 90), '"chain":"' .. known_chain, 1, true)
    end
    -- the change is not lost if its entry was trimmed
    local first = call("XRANGE", P .. "changes", "-", "+", "COUNT", 1)[1]
    return seq >= tonumber(known_seq)
      and (not first or tonumber(string.match(first[2][2], '^{"seq":(%d+)')) > tonumber(known_seq))
  end
  if known_epoch ~= epoch or not is_kept() then
    return redis.error_reply("MQLOST Redis has lost the change " .. known_seq .. " that the caller knew")
  end
end

local function emit(kind, members, topics)
  seq, topics = seq + 1, topics and ',"topics":{' .. topics .. "}" or ""
  local body = ',"after":"' .. chain .. '","type":"' .. kind .. '","by":' .. by
    .. (knew ~= "" and ',"knew":[' .. knew .. "]" or "") .. members
  -- A hash of this event and of the chain before it: two histories with the same chain are equal up to this event. If
  -- Redis lost changes and then got other changes, a reader finds by it the last change before the loss.
  chain = string.sub(redis.sha1hex(int(now_ms) .. body .. #topics), 1, 16)
  body = '{"seq":' .. int(seq) .. ',"ms":' .. int(now_ms) .. ',"chain":"' .. chain .. '"' .. body
  -- "at" is the bytes of all events so far: the first and the last "at" give the size of the stream (trim_streams).
  changes_bytes = changes_bytes + #body + #topics
  local id = call("XADD", P .. "changes", "MAXLEN", "~", changes_maxlen, "*", "e",
    body .. topics .. ',"at":' .. int(changes_bytes) .. "}") -- one concatenation: topics may have 26 kB
  call("HSET", KEYS[1], "seq", int(seq), "chain", chain, "changes_bytes", int(changes_bytes), "last_change", id)
end
