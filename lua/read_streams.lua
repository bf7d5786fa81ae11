--[[ read_streams: the size of each stream, and the positions of their readers, read only
  KEYS[1] meta    HASH
  DERIVED the streams, readers
  RETURNS JSON: {"now_ms", "streams": {stream: {entries, bytes, first, last}}, "readers": {name: {seen_ms, silent,
                 "positions": {stream: {id, state, behind, behind_bytes, behind_ms}}}}}
  EVENTS  none
  REPEAT  the same      COST O(readers) ]]
--- @include "include/open"
--- @include "include/readers"
local states, readers = {}, read_readers()
for _, stream in ipairs(STREAMS) do
  states[stream] = state_of(stream)
end
for _, reader in pairs(readers) do
  for stream, position in pairs(reader.positions) do
    position.behind, position.behind_bytes, position.behind_ms = behind(states[stream], position)
  end
end
return cjson.encode({now_ms = now_ms, streams = states, readers = readers})
