--[[ init_namespace: make the namespace if it is missing, and return its properties
  KEYS[1] meta          HASH
  ARGV[1] epoch         random; used only for a new namespace
  ARGV[2] schema        int, the schema major of the caller
  ARGV[3] compat        "5.x" or "4.8"; used only for a new namespace
  ARGV[4] schema_minor  int, the schema minor of the caller; meta has the highest of all callers
  ARGV[5] fresh         "1": nothing was ever in this Redis. Else Redis may have lost the namespace: lost_ms in meta
                        becomes now, and for one heartbeat period, while brokers come back, no topic counts as unknown
  DERIVED mqauth: policy; a new namespace begins with the mode observe. So a Redis login that may not write mqauth: keys
          cannot make a namespace
  RETURNS {epoch, schema, compat, seq, created 0|1, schema_minor}
  EVENTS  none
  REPEAT  no effect, and no write: so a sweeper can start on a Redis at its maxmemory, and trim streams
  COST    O(1) ]]
local LEGEND = "queues:<brokerName> is topic -> {r: readQueueNums, w: writeQueueNums, p: perm, f: topicSysFlag, b: these "
  .. "four as the broker registered them, if others have changed them}; "
  .. "topic:<topic> has its brokerNames; broker:<brokerName> has cluster, zone, acting, rev beside the address of each "
  .. "broker id; all keys: docs/redis.md"
local created = 0
if redis.call("HEXISTS", KEYS[1], "epoch") == 0 then
  created = 1
  local policy = "mqauth" .. string.sub(KEYS[1], 3, -5) .. "policy"
  if redis.call("HEXISTS", policy, "mode") == 0 then -- before all other writes: the login may lack this right
    redis.call("HSET", policy, "mode", "observe", "revision", 1)
  end
  local kept, time = redis.call("HMGET", policy, "mode", "revision"), redis.call("TIME")
  redis.call("HSET", KEYS[1], "epoch", ARGV[1], "seq", 0, "n", 0, "config_rev", 0,
    "schema", ARGV[2], "compat", ARGV[3], "auth_revision", kept[2], "auth_mode", kept[1], "legend", LEGEND,
    "lost_ms", ARGV[5] == "1" and 0 or time[1] .. string.format("%03d", math.floor(time[2] / 1000)))
end
local meta = redis.call("HMGET", KEYS[1], "epoch", "schema", "compat", "seq", "schema_minor")
local minor = meta[5] or "0"
if meta[2] == ARGV[2] and meta[3] == ARGV[3] and tonumber(minor) < tonumber(ARGV[4]) then
  -- pcall: at maxmemory this fails, and a later call does it
  if type(redis.pcall("HSET", KEYS[1], "schema_minor", ARGV[4])) == "number" then
    minor = ARGV[4]
  end
end
return {meta[1], meta[2], meta[3], meta[4], created, minor}
