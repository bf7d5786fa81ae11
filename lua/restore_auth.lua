--[[ restore_auth: give a Redis that came back with an older policy, or without one, the last one that was known
  KEYS[1] meta       HASH
  ARGV[1] revision   int   of the policy
  ARGV[2] mode
  ARGV[3...] pairs of a user's name and its JSON: all users
  DERIVED mqauth: policy, users, used
  RETURNS {"OK", revision, seq}: what Redis has now; a higher revision than the caller's if it was not older
  EVENTS  auth_changed, when it was
  REPEAT  no effect      COST O(users)
  SOURCE  Whether an older release serves is not asked: rules that were in force stay so ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/auth"
--- @include "include/put_policy"
local revision = tonumber(call("HGET", A .. "policy", "revision") or "0")
if revision < tonumber(ARGV[1]) then
  revision = tonumber(ARGV[1])
  put_policy(revision, ARGV[2], 3, true)
end
return {"OK", int(revision), seq}
