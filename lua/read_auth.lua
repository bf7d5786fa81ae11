--[[ read_auth: the whole policy, read only
  KEYS[1] meta  HASH
  DERIVED mqauth: policy, users
  RETURNS {revision, mode, {name, JSON, ...}, {field, value, ...}}.
          The fields are those of policy: "changed:<name>" is the revision that changed or removed this user
  EVENTS  none
  REPEAT  the same      COST O(users) ]]
--- @include "include/open"
--- @include "include/auth"
local policy = call("HMGET", A .. "policy", "revision", "mode")
return {policy[1] or "0", policy[2] or "off", call("HGETALL", A .. "users"),
  call("HGETALL", A .. "policy")}
