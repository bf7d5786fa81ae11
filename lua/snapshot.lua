--[[ snapshot: one page of the tables, read only
  The reader asks for "head", then for every page of every section, then applies every event after the stream position
  of the head. Events set values, so the result is exact although the pages are of different moments.
  KEYS[1] meta      HASH
  ARGV[1] section   head, brokers, clusters, topic, filters, mappings, config, live
  ARGV[2] cursor    "0" begins
  ARGV[3] count     about how many members a page has
  ARGV[4...] topic      only for the section topic: each page has its queue data of some brokerNames. The reader reads
                        all queue data without this script, by HGETALL and HSCAN, which are faster
  DERIVED the tables
  RETURNS head: {epoch, seq, config_rev, up_since, now, last id of the change stream, chain}
          topic: {next cursor ("0" = done), {brokerName, queue data, ...}}
          else: {next cursor ("0" = done), {name of a large row, ...}, name, flat HASH / SET / LIST, ...}: each other
          row by its name. A large row has too many fields for Lua (include/collect) or for this page; the reader reads
          it by HSCAN, SSCAN or LRANGE
  EVENTS  none
  REPEAT  the same      COST O(count * size of one) ]]
--- @include "include/open"
local MOST_FIELDS = 1000 -- of one row
local MOST_TEXTS = 3000 -- of one page
local section, cursor, count = ARGV[1], ARGV[2], ARGV[3]
if section == "head" then
  local last = call("XREVRANGE", P .. "changes", "+", "-", "COUNT", 1)
  local kept = call("HMGET", KEYS[1], "up_since", "chain")
  return {epoch, seq, config_rev, kept[1] or "0", int(now_ms), last[1] and last[1][1] or "0-0", kept[2] or epoch}
elseif section == "config" then
  return {"0", {}, "config", call("HGETALL", P .. "config")}
elseif section == "topic" then
  local page, found = call("SSCAN", P .. "brokers", cursor, "COUNT", count), {}
  for i = 1, #page[2] do
    local data = call("HGET", P .. "queues:" .. page[2][i], ARGV[4])
    if data then
      found[#found + 1] = page[2][i]
      found[#found + 1] = data
    end
  end
  return {page[1], found}
end
local sources = {
  brokers = {"SSCAN", "brokers", "broker:", "HGETALL", "HLEN"},
  clusters = {"SSCAN", "clusters", "cluster:", "SMEMBERS", "SCARD"},
  filters = {"ZSCAN", "deadlines", "filter:", "LRANGE"},
  mappings = {"SSCAN", "mappings", "mapping:", "HGETALL", "HLEN"},
  live = {"ZSCAN", "deadlines", "live:", "HGETALL", "HLEN"},
}
local source = sources[section]
if not source then
  return redis.error_reply("MQSECTION no section " .. section)
end
local page, large = call(source[1], P .. source[2], cursor, "COUNT", count), {}
local out, step, texts = {page[1], large}, source[1] == "ZSCAN" and 2 or 1, 0
for i = 1, #page[2], step do
  local name = page[2][i]
  local key, value = P .. source[3] .. name, {}
  local is_large = texts > MOST_TEXTS or (source[5] and call(source[5], key) > MOST_FIELDS)
  if not is_large and source[5] then
    value = call(source[4], key)
  elseif not is_large then
    value = call("LRANGE", key, 0, MOST_FIELDS)
    is_large = #value > MOST_FIELDS
  end
  if is_large then
    large[#large + 1] = name
  elseif #value > 0 then
    texts = texts + #value
    out[#out + 1] = name
    out[#out + 1] = value
  end
end
return out
