--[[ snapshot: one page of the tables, read only
  The reader asks for "head" first, then for every page of every section, then applies each event after the
  head's stream position. Events set values, so the result is exact although the pages are of different moments.
  KEYS[1] meta      HASH
  ARGV[1] section   head, brokers, clusters, topics, filters, mappings, kv, config, live
  ARGV[2] cursor    "0" begins
  ARGV[3] count     members a page, about
  DERIVED the tables
  RETURNS head: {epoch, seq, config_rev, up_since, now, last id of the change stream}
          topics: {next cursor ("0" = done), MessagePack of {{topic, ...}, {flat HASH of each}}}: a string costs
          Redis a third less than 16 of them a topic, and the reader a fifth
          else: {next cursor, name, flat HASH / SET / LIST of that name, name, ...}
  EVENTS  none
  REPEAT  the same      COST O(count * size of one) ]]
--- @include "include/open"
--- @include "include/leaving_names"
local section, cursor, count = ARGV[1], ARGV[2], ARGV[3]
if section == "head" then
  local last = call("XREVRANGE", P .. "changes", "+", "-", "COUNT", 1)
  local up_since = call("HGET", KEYS[1], "up_since")
  return {epoch, seq, config_rev, up_since or "0", int(now_ms), last[1] and last[1][1] or "0-0"}
elseif section == "config" then
  return {"0", "config", call("HGETALL", P .. "config")}
end
local sources = {
  brokers = {"SSCAN", "brokers", "broker:", "HGETALL"},
  clusters = {"SSCAN", "clusters", "cluster:", "SMEMBERS"},
  topics = {"SSCAN", "topics", "topic:", "HGETALL"},
  filters = {"ZSCAN", "deadlines", "filter:", "LRANGE"},
  mappings = {"SSCAN", "mappings", "mapping:", "HGETALL"},
  kv = {"SSCAN", "kv", "kv:", "HGETALL"},
  live = {"ZSCAN", "deadlines", "live:", "HGETALL"},
}
local source = sources[section]
if not source then
  return redis.error_reply("MQSECTION no section " .. section)
end
local page = call(source[1], P .. source[2], cursor, "COUNT", count)
if section == "topics" then
  local topics, rows, leaving = {}, {}, leaving_names()
  for _, topic in ipairs(page[2]) do
    local row = call("HGETALL", P .. "topic:" .. topic)
    if leaving then
      local counts = {}
      for i = 1, #row, 2 do
        if not leaving[row[i]] then
          counts[#counts + 1] = row[i]
          counts[#counts + 1] = row[i + 1]
        end
      end
      row = counts
    end
    if #row > 0 then
      topics[#topics + 1] = topic
      rows[#rows + 1] = row
    end
  end
  return {page[1], cmsgpack.pack({topics, rows})}
end
local out, step = {page[1]}, source[1] == "ZSCAN" and 2 or 1
for i = 1, #page[2], step do
  local name = page[2][i]
  local value
  if source[4] == "LRANGE" then
    value = call("LRANGE", P .. source[3] .. name, 0, -1)
  else
    value = call(source[4], P .. source[3] .. name)
  end
  if #value > 0 or section == "kv" then
    out[#out + 1] = name
    out[#out + 1] = value
  end
end
return out
