--[[ write_lookups: append how often clients looked up each topic at one worker since its last report
  KEYS[1] meta         HASH
  ARGV[1] front_end
  ARGV[2] incarnation  random, of this worker process
  ARGV[3] number       int   of this report, rising, so that no report is written twice
  ARGV[4] during_ms    int   how long the worker counted, until now
  ARGV[5...] JSON members of one entry each: "found":{topic:count},"missing":{topic:count},
    "clients":{topic:[address]}
  DERIVED lookups; counted: HASH, <incarnation> -> number and time of its last report, for a day
  RETURNS {"OK", entries written}
  EVENTS  none (entries on lookups; their schema: registry/events/journal.py)
  REPEAT  no effect within a day      COST O(size); first report of a worker: also O(workers of the last day) ]]
--- @include "include/open"
--- @include "include/expect"
local DAY_MS = 86400000
local counted, stream = P .. "counted", P .. "lookups"
expect("hash", counted)
expect("stream", stream)
local last = call("HGET", counted, ARGV[2])
if last and tonumber(string.match(last, "^%d+")) >= tonumber(ARGV[3]) then
  return {"OK", 0}
end
if not last then
  local flat = call("HGETALL", counted)
  for i = 1, #flat, 2 do
    if tonumber(string.match(flat[i + 1], "%d+$")) < now_ms - DAY_MS then
      call("HDEL", counted, flat[i])
    end
  end
end
local maxlen = string.match(stream_limits, "(%d+)$")
local head = '{"ms":' .. int(now_ms) .. ',"since_ms":' .. int(now_ms - tonumber(ARGV[4]))
  .. ',"front_end":' .. cjson.encode(ARGV[1]) .. ","
for i = 5, #ARGV do
  local entry = head .. ARGV[i]
  call("XADD", stream, "MAXLEN", "~", maxlen, "*", "e",
    entry .. ',"at":' .. int(call("HINCRBY", KEYS[1], "lookups_bytes", #entry)) .. "}")
end
call("HSET", counted, ARGV[2], ARGV[3] .. " " .. int(now_ms))
return {"OK", #ARGV - 4}
