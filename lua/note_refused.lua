--[[ note_refused: store requests that were refused, or in mode observe would have been refused in mode enforce
  KEYS[1] meta       HASH
  ARGV[1] front_end
  ARGV[2] mode       "observe" or "enforce"
  ARGV[3...] groups of three: kind (JSON object: who asked for what, and why it was refused), number of such requests
          since the last report, and a JSON object about the last of them
  DERIVED mqauth: refused, refusals
  RETURNS {"OK", kinds in Redis}
  EVENTS  none (entries on refusals; their schema: registry/auth/refused.py)
  REPEAT  counts again
  COST    O(kinds of the call); above MOST_KINDS, O(kinds in Redis), and the oldest kinds are deleted ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/auth"
local MOST_KINDS, MOST_ENTRIES = 2000, 10000
local refused, refusals = A .. "refused", A .. "refusals"
expect("hash", refused)
expect("stream", refusals)
local now = int(now_ms)
for i = 3, #ARGV, 3 do
  local kind, count, last = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local before, first = string.match(call("HGET", refused, kind) or "", '^{"count":(%d+),"first_ms":(%d+)')
  call("HSET", refused, kind, '{"count":' .. int(count + (tonumber(before) or 0)) .. ',"first_ms":' .. (first or now)
    .. ',"last_ms":' .. now .. ',"mode":"' .. ARGV[2] .. '","last":' .. last .. "}")
  call("XADD", refusals, "MAXLEN", "~", MOST_ENTRIES, "*", "e", '{"ms":' .. now .. ',"front_end":'
    .. cjson.encode(ARGV[1]) .. ',"mode":"' .. ARGV[2] .. '","count":' .. int(count) .. ',"kind":' .. kind
    .. ',"last":' .. last .. "}")
end
local kept = call("HLEN", refused)
if kept > MOST_KINDS then
  local flat, by_age = call("HGETALL", refused), {}
  for i = 1, #flat, 2 do
    by_age[#by_age + 1] = {tonumber(string.match(flat[i + 1], '"last_ms":(%d+)')), flat[i]}
  end
  table.sort(by_age, function(a, b) return a[1] < b[1] end)
  for i = 1, kept - MOST_KINDS do
    call("HDEL", refused, by_age[i][2])
  end
  kept = MOST_KINDS
end
return {"OK", kept}
