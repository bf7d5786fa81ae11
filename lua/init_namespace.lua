--[[ init_namespace: make the namespace once, and say what it is
  KEYS[1] meta          HASH
  ARGV[1] epoch         random; counts only when the namespace is new
  ARGV[2] schema        int, the schema major of the caller
  ARGV[3] compat        "5.x" or "4.8"; counts only when the namespace is new
  ARGV[4] schema_minor  int, the schema minor of the caller; the highest that ever came is kept
  RETURNS {epoch, schema, compat, seq, created 0|1, schema_minor}
  EVENTS  none
  REPEAT  no effect      COST O(1) ]]
local created = redis.call("HSETNX", KEYS[1], "epoch", ARGV[1])
if created == 1 then
  redis.call("HSET", KEYS[1], "seq", 0, "n", 0, "config_rev", 0, "schema", ARGV[2], "compat", ARGV[3])
end
local meta = redis.call("HMGET", KEYS[1], "epoch", "schema", "compat", "seq", "schema_minor")
local minor = meta[5] or "0"
if meta[2] == ARGV[2] and meta[3] == ARGV[3] and tonumber(minor) < tonumber(ARGV[4]) then
  minor = ARGV[4]
  redis.call("HSET", KEYS[1], "schema_minor", minor)
end
return {meta[1], meta[2], meta[3], meta[4], created, minor}
