--[[ readers: who reads the streams, how far each has come, and what the streams hold
  GIVES  STREAMS; stream_id(text) -> ms, number; before(a, b): is id a older than id b;
         decode_reader(text) -> {seen_ms, silent, positions}, or nil: it is no reader; read_readers() -> name -> reader;
         positions: stream -> {id, needs, seq, at, state}.
         id: the last entry that the reader acknowledged. needs: the entry whose loss is a gap for the reader; it is id,
         or the oldest entry of the stream if the reader has acknowledged no entry.
         save_reader(name, reader);
         state_of(stream) -> {entries, bytes, first, last, first_seq, last_seq, first_at, last_at}
         behind(state, position) -> entries, bytes (-1 = not known), ms. Exact for changes, as they have a seq. For
         other streams estimated from the times, unless the reader is at or before the oldest entry. ]]
local STREAMS = {"changes", "heartbeats", "lookups"}

local function stream_id(text)
  local ms, number = string.match(text, "^(%d+)-(%d+)$")
  return tonumber(ms), tonumber(number)
end

local function before(a, b)
  local a_ms, a_number = stream_id(a)
  local b_ms, b_number = stream_id(b)
  return a_ms < b_ms or (a_ms == b_ms and a_number < b_number)
end

-- Readers' Redis users may write this HASH: a field that is no reader is ignored, so it cannot block trim_streams.
local function decode_reader(text)
  local fine, reader = pcall(cjson.decode, text)
  if not fine or type(reader) ~= "table" or type(reader.positions) ~= "table" or type(reader.seen_ms) ~= "number" then
    return nil
  end
  local positions = {}
  for _, stream in ipairs(STREAMS) do
    local position = reader.positions[stream]
    if type(position) == "table" and stream_id(tostring(position.id)) and type(position.state) == "string"
      and (position.needs == "" or stream_id(tostring(position.needs))) then
      position.seq, position.at = tonumber(position.seq), tonumber(position.at)
      positions[stream] = position
    end
  end
  reader.positions = positions
  return reader
end

local function read_readers()
  local flat, readers = call("HGETALL", P .. "readers"), {}
  for i = 1, #flat, 2 do
    readers[flat[i]] = decode_reader(flat[i + 1])
  end
  return readers
end

local function save_reader(name, reader)
  call("HSET", P .. "readers", name, cjson.encode(reader))
end

-- an entry's members seq and at (the bytes of all entries up to this one), nil if it has none, and its length
local function numbers_of(entry)
  local text = entry[2][2]
  -- only the two ends: an entry may have 25 kB
  local seq, at = string.match(text, '^{"seq":(%d+)'), string.match(string.sub(text, -30), '"at":(%d+)}$')
  return tonumber(seq), tonumber(at), #text
end

local function state_of(stream)
  local key = P .. stream
  local state = {entries = call("XLEN", key), bytes = -1, first = "", last = ""}
  local first, last = call("XRANGE", key, "-", "+", "COUNT", 1)[1], call("XREVRANGE", key, "+", "-", "COUNT", 1)[1]
  if first then
    local size
    state.first, state.last = first[1], last[1]
    state.first_seq, state.first_at, size = numbers_of(first)
    state.last_seq, state.last_at = numbers_of(last)
    if state.first_at and state.last_at then
      state.bytes = state.last_at - state.first_at + size
    end
  end
  return state
end

local function behind(state, position)
  if state.entries == 0 or not before(position.id, state.last) then
    return 0, 0, 0
  end
  local bytes = position.at and state.last_at and math.min(state.bytes, state.last_at - position.at) or state.bytes
  local from, to = stream_id(state.first), stream_id(state.last)
  local at = stream_id(position.id)
  if before(position.id, state.first) then
    return state.entries, bytes, to - from
  elseif position.seq and state.last_seq then
    return state.last_seq - position.seq, bytes, to - at
  elseif position.id == state.first then
    return state.entries - 1, bytes, to - at
  end
  return math.max(1, math.floor(state.entries * (to - at) / math.max(1, to - from))), bytes, to - at
end
