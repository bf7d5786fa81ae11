--[[ trim_streams: keep the streams within their limits, and raise an alarm before a reader loses entries
  It removes entries beyond age, entries or bytes, oldest first, unless a running reader has not acknowledged them.
  It removes all entries beyond the hard limits. It removes whole nodes of a stream (up to 100 entries), and never the
  last entry.
  KEYS[1] meta               HASH
  ARGV[1] most               int   the most entries that this call removes; it also ends after some 4 MB
  ARGV[2] reader_timeout_ms  int   no entries are kept for a reader that did not call for this time
  ARGV[3...] for each of changes, heartbeats, lookups: age (ms), entries, bytes, hard entries, hard bytes; 0 bytes = no
             limit. bytes of changes and lookups: of the entries' JSON; of heartbeats: the memory of the stream in Redis
  DERIVED the streams, readers; stream_limits in meta: the hard entries, which limit every script that adds an entry
  RETURNS {entries removed, 1 if there is more to remove, 1 if Redis is at its maxmemory, alarm...};
          an alarm is "<kind> <stream> <reader>", kind
          near:   the reader's unacknowledged entries reached 80 % of a hard limit; the alarm ends below 60 %
          lost:   entries after the reader's position were trimmed, or Redis lost the position with its last writes
          silent: the reader did not call for reader_timeout_ms; stream is "-"
          The script also runs at maxmemory: its first write is a trim, after which Redis lets the script finish
  EVENTS  stream_alarm, ignorable, one for each alarm, when it begins
  REPEAT  no effect      COST O(most + readers) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/readers"
expect("hash", P .. "readers")
expect("stream", P .. "heartbeats", P .. "lookups")
local most, reader_timeout_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
-- STEP: entries in one XTRIM; more than a node has, but few, to stop near a limit of bytes. 200 of 25 kB take 1 ms.
local STEP, MOST_BYTES = 200, 4 * 1024 * 1024
local limits, hard = {}, {}
for i, stream in ipairs(STREAMS) do
  local first = 3 + 5 * (i - 1)
  limits[stream] = {
    age_ms = tonumber(ARGV[first]), entries = tonumber(ARGV[first + 1]), bytes = tonumber(ARGV[first + 2]),
    hard_entries = tonumber(ARGV[first + 3]), hard_bytes = tonumber(ARGV[first + 4]),
  }
  hard[i] = int(limits[stream].hard_entries)
end
local wanted = table.concat(hard, " ")
local noted = redis.pcall("HSET", KEYS[1], "stream_limits", wanted)
local full = type(noted) == "table" and string.find(noted.err, "OOM", 1, true) ~= nil
if type(noted) == "table" and not full then
  error(noted.err, 0)
end
-- At maxmemory Redis refuses commands that add memory until the script has made one write. This trim removes nothing,
-- but counts as that write.
call("XTRIM", P .. "changes", "MINID", "~", "0-0")

local readers = read_readers()
local function runs(reader)
  return now_ms - reader.seen_ms <= reader_timeout_ms
end

-- by how many entries a stream is over its limits of entries and bytes
local function excess(state, entries, bytes)
  local over = state.entries - entries
  if bytes > 0 and state.bytes > bytes then
    over = math.max(over, math.ceil((state.bytes - bytes) * state.entries / state.bytes))
  end
  return over
end

local removed, more = 0, false
local function cut(stream, bound, entries)
  local count = math.min(entries, STEP, most - removed)
  local gone = count > 0 and call("XTRIM", P .. stream, "MINID", "~", bound, "LIMIT", int(count)) or 0
  more = more or (gone == 0 and entries > count and removed > 0)
  removed = removed + gone
  return gone > 0
end

-- turns limits of bytes into limits of entries, for heartbeats: the entries do not say how many bytes they need
local function fit(stream, state, limit)
  local used = redis.pcall("MEMORY", "USAGE", P .. stream, "SAMPLES", 0) -- a look at each node of up to 100 entries
  if state.entries == 0 or limit.bytes == 0 or type(used) ~= "number" then
    return limit
  end
  local each = used / state.entries
  return {
    age_ms = limit.age_ms, bytes = 0, hard_bytes = 0,
    entries = math.min(limit.entries, math.floor(limit.bytes / each)),
    hard_entries = math.min(limit.hard_entries, math.floor(limit.hard_bytes / each)),
  }
end

local unsaved = {}
local function trim(stream)
  local state, held = state_of(stream), nil
  if stream == "heartbeats" then
    limits[stream] = fit(stream, state, limits[stream])
  end
  local limit = limits[stream]
  for name, reader in pairs(readers) do
    local position = reader.positions[stream]
    if position and position.needs == "" and state.first ~= "" then -- the reader began while the stream was empty
      position.needs, unsaved[name] = state.first, true
    end
    if position and runs(reader) and (not held or before(position.id, held)) then
      held = position.id
    end
  end
  local began_at = state.first_at
  while state.entries > 0 do
    if began_at and state.first_at and state.first_at - began_at > MOST_BYTES then
      more = true
      break
    end
    local bound = state.last
    if held and before(held, bound) then
      bound = held
    end
    local oldest = int(math.max(0, now_ms - limit.age_ms)) .. "-0"
    local going = cut(stream, state.last, excess(state, limit.hard_entries, limit.hard_bytes))
      or cut(stream, bound, excess(state, limit.entries, limit.bytes))
      or (before(state.first, oldest) and cut(stream, before(oldest, bound) and oldest or bound, STEP))
    if not going then
      break
    end
    state = state_of(stream)
  end
  return state
end

local states = {}
for _, stream in ipairs(STREAMS) do
  states[stream] = trim(stream)
end

local alarms = {}
local function alarm(kind, stream, name)
  alarms[#alarms + 1] = kind .. " " .. stream .. " " .. name
  emit("stream_alarm", ',"ignorable":true,"alarm":"' .. kind .. '","reader":' .. cjson.encode(name)
    .. (stream ~= "-" and (',"stream":"' .. stream .. '"') or ""))
end

local function judge(position, state, limit)
  if position.needs ~= "" and (state.entries == 0 or before(position.needs, state.first)
    or before(state.last, position.needs)) then
    return "lost"
  end
  local entries, bytes = behind(state, position)
  local part = entries / limit.hard_entries
  if limit.hard_bytes > 0 then
    part = math.max(part, bytes / limit.hard_bytes)
  end
  return (part >= 0.8 or (position.state == "near" and part >= 0.6)) and "near" or ""
end

for name, reader in pairs(readers) do
  local changed = unsaved[name]
  if not runs(reader) and not reader.silent then
    reader.silent, changed = true, true
    alarm("silent", "-", name)
  end
  for _, stream in ipairs(STREAMS) do
    local position = reader.positions[stream]
    local kind = position and judge(position, states[stream], limits[stream])
    if position and kind ~= position.state then
      position.state, changed = kind, true
      if kind ~= "" then
        alarm(kind, stream, name)
      end
    end
  end
  if changed then
    save_reader(name, reader)
  end
end
return {removed, more and 1 or 0, full and 1 or 0, unpack(alarms)}
