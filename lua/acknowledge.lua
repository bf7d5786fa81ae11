--[[ acknowledge: a reader of the streams reports up to which entry it has saved them
  While the reader calls, trim_streams keeps later entries (up to the hard limits), and the acknowledged entry itself:
  by this entry the reader sees that it continues without a gap.
  KEYS[1] meta       HASH
  ARGV[1] reader     its name, 1..200 bytes
  ARGV[2] epoch      of the namespace that was read, "" = any
  ARGV[3...] pairs of stream (changes, heartbeats, lookups) and entry id; "0-0": keep all entries. An id before the
             last acknowledged id changes nothing (call forget_reader first to start over)
  DERIVED readers, and the streams
  RETURNS {"OK", now}; an error "MQREADER ..." names what is wrong; nothing is written
  EVENTS  none
  REPEAT  no effect      COST O(pairs) ]]
--- @include "include/open"
--- @include "include/readers"
local MOST_READERS = 200
local name = ARGV[1]
if name == "" or #name > 200 then
  return redis.error_reply("MQREADER a reader's name has 1 to 200 bytes, this one has " .. #name)
elseif ARGV[2] ~= "" and ARGV[2] ~= epoch then
  return redis.error_reply("MQREADER " .. name .. " has read entries of epoch " .. ARGV[2] .. ", this namespace is of "
    .. epoch .. ": Redis was emptied or replaced; start again with a snapshot")
end
local present = call("HGET", P .. "readers", name)
if not present and call("HLEN", P .. "readers") >= MOST_READERS then
  return redis.error_reply("MQREADER there are " .. MOST_READERS .. " readers already: forget those that are gone "
    .. "(mqregistry streams --forget NAME)")
end
local reader = present and decode_reader(present) or {positions = {}}
for i = 3, #ARGV, 2 do
  local stream, id = ARGV[i], ARGV[i + 1] or ""
  if not (stream == "changes" or stream == "heartbeats" or stream == "lookups") then
    return redis.error_reply("MQREADER no stream " .. stream .. ": there are " .. table.concat(STREAMS, ", "))
  elseif not stream_id(id) then
    return redis.error_reply("MQREADER " .. stream .. ": no entry id: '" .. id .. "', expected like 1700000000000-0")
  end
  local state, known = state_of(stream), reader.positions[stream]
  -- a known position beyond the end is from before Redis lost its last writes
  if not known or before(known.id, id) or (state.last ~= "" and before(state.last, known.id)) then
    local position = {id = id, needs = id, state = known and known.state or ""}
    if id == "0-0" then
      position.needs = state.first
    else
      local entry = call("XRANGE", P .. stream, id, id, "COUNT", 1)[1]
      if entry then
        position.seq, position.at = numbers_of(entry)
        if position.state == "lost" then
          position.state = "" -- the reader has started over: a later loss is a new alarm
        end
      end
    end
    reader.positions[stream] = position
  end
end
reader.seen_ms, reader.silent = now_ms, false
save_reader(name, reader)
return {"OK", int(now_ms)}
