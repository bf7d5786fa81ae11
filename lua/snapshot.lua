--[[ snapshot: one page of the tables, read only
  The reader asks for "head" first, then for every page of every section, then applies each event after the
  head's stream position. Events set values, so the result is exact although the pages are of different moments.
  KEYS[1] meta      HASH
  ARGV[1] section   head, brokers, clusters, topics, filters, mappings, config, live
  ARGV[2] cursor    "0" begins
  ARGV[3] count     members a page, about
  DERIVED the tables
  RETURNS head: {epoch, seq, config_rev, up_since, now, last id of the change stream}
          else: {next cursor ("0" = done), {name of a large row, ...}, ...}. A large row has too many fields for Lua
          (include/collect) or for this page; the reader asks for it by HSCAN, SSCAN or LRANGE. The others:
          topics: MessagePack of {{topic, ...}, {flat HASH of each}}, as many as there are: a string costs Redis a
          third less than 16 of them a topic, and the reader a fifth
          others: name, flat HASH / SET / LIST of that name, name, ...
  EVENTS  none
  REPEAT  the same      COST O(count * size of one) ]]
--- @include "include/open"
--- @include "include/leaving_names"
--- @include "include/collect"
local MOST_FIELDS = 1000 -- of one row
-- Texts of all rows that are in Lua at a time. A usual page of topics has twice as many, and few that differ.
local MOST_TEXTS = 3000
-- Texts of a page of topics. SSCAN gives a small set whole, however few it is asked for.
local MOST_OF_TOPICS = 10000
local section, cursor, count = ARGV[1], ARGV[2], ARGV[3]
if section == "head" then
  local last = call("XREVRANGE", P .. "changes", "+", "-", "COUNT", 1)
  local up_since = call("HGET", KEYS[1], "up_since")
  return {epoch, seq, config_rev, up_since or "0", int(now_ms), last[1] and last[1][1] or "0-0"}
elseif section == "config" then
  return {"0", {}, "config", call("HGETALL", P .. "config")}
end
local sources = {
  brokers = {"SSCAN", "brokers", "broker:", "HGETALL", "HLEN"},
  clusters = {"SSCAN", "clusters", "cluster:", "SMEMBERS", "SCARD"},
  topics = {"SSCAN", "topics", "topic:", "HGETALL", "HLEN"},
  filters = {"ZSCAN", "deadlines", "filter:", "LRANGE"},
  mappings = {"SSCAN", "mappings", "mapping:", "HGETALL", "HLEN"},
  live = {"ZSCAN", "deadlines", "live:", "HGETALL", "HLEN"},
}
local source = sources[section]
if not source then
  return redis.error_reply("MQSECTION no section " .. section)
end
local page, large = call(source[1], P .. source[2], cursor, "COUNT", count), {}
if section == "topics" then
  -- each field is a brokerName: with fewer of these no row is large
  local may_be_large = call("SCARD", P .. "brokers") > MOST_FIELDS
  local out, topics, rows, texts, all, leaving = {page[1], large}, {}, {}, 0, 0, leaving_names()
  local function pack()
    out[#out + 1] = cmsgpack.pack({topics, rows})
    topics, rows, texts = {}, {}, 0
    collect()
  end
  local function counting(row) -- without the names that are leaving
    local counts = {}
    for i = 1, #row, 2 do
      if not leaving[row[i]] then
        counts[#counts + 1] = row[i]
        counts[#counts + 1] = row[i + 1]
      end
    end
    return counts
  end
  for _, topic in ipairs(page[2]) do
    local key = P .. "topic:" .. topic
    if all > MOST_OF_TOPICS or may_be_large and call("HLEN", key) > MOST_FIELDS then
      large[#large + 1] = topic
    else
      local row = call("HGETALL", key)
      if leaving then
        row = counting(row)
      end
      if #row > 0 then
        topics[#topics + 1] = topic
        rows[#rows + 1] = row
        texts, all = texts + #row, all + #row
        if texts > MOST_TEXTS then
          row = nil
          pack()
        end
      end
    end
  end
  if #topics > 0 then
    pack()
  end
  return out
end
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
