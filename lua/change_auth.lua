--[[ change_auth: change the users or the mode of authentication, all or nothing
  KEYS[1] meta          HASH
  ARGV[1] revision      int   of the policy from which the caller computed the change
  ARGV[2] mode          "off", "observe", "enforce"
  ARGV[3...] pairs of a user's name and its JSON, "" removes the user
  DERIVED mqauth: policy, users, used
  RETURNS {"OK", revision, seq}: the new revision
          {"STALE", revision}: the policy has changed; nothing was written, and the caller computes the change again
  EVENTS  auth_changed, ignorable; it has only the revision
  REPEAT  STALE
  COST    O(users that change)
  SOURCE  A revision is the time in ms, but at least the old revision + 1: so after Redis lost changes, a new revision
          is higher than every lost revision ]]
--- @include "include/open"
--- @include "include/auth"
--- @include "include/put_policy"
local revision = tonumber(call("HGET", A .. "policy", "revision") or "0")
if revision ~= tonumber(ARGV[1]) then
  return {"STALE", int(revision)}
end
revision = math.max(revision + 1, now_ms)
local users, kept = {}, call("HMGET", A .. "policy", "mode", "changed:")
for i = 3, #ARGV, 2 do
  users[#users + 1] = {ARGV[i], ARGV[i + 1], revision}
end
put_policy(revision, ARGV[2], kept[1] == ARGV[2] and tonumber(kept[2] or "1") or revision, users)
return {"OK", int(revision), seq}
