--[[ restore_auth: restore the policy of authentication in a Redis that came back with an older policy, or without
  KEYS[1] meta          HASH
  ARGV[1] revision      int   of the policy
  ARGV[2] mode
  ARGV[3] mode_changed  int   the revision that set this mode
  ARGV[4...] groups of three: a user's name, its JSON, and the revision of its last change; also for removed users that
          the caller knows (JSON "")
  DERIVED mqauth: policy, users, used
  RETURNS {"OK", revision, seq}: the revision in Redis now
  EVENTS  auth_changed, when Redis lacked a change
  REPEAT  no effect      COST O(users)
  SOURCE  For each user, and for the mode, the change with the higher revision wins: so changes after the loss stay.
          Then the new revision is higher than that of both policies, so every front end reads the policy again ]]
--- @include "include/open"
--- @include "include/auth"
--- @include "include/put_policy"
local fields, kept = call("HGETALL", A .. "policy"), {}
for i = 1, #fields, 2 do
  kept[fields[i]] = fields[i + 1]
end
local revision, given = tonumber(kept.revision or "0"), tonumber(ARGV[1])
local forgotten = kept.forgotten or "-1"
local users, newer_here = {}, false

local function is_lost(name, changed)
  local here = tonumber(kept["changed:" .. name] or forgotten)
  kept["changed:" .. name] = nil
  newer_here = newer_here or here > changed
  return here < changed
end

for i = 4, #ARGV, 3 do
  local changed = tonumber(ARGV[i + 2])
  if is_lost(ARGV[i], changed) then
    users[#users + 1] = {ARGV[i], ARGV[i + 1], changed}
  end
end
kept["changed:"] = kept["changed:"] or (kept.mode and "0" or "-1")
local mode, mode_changed = kept.mode, tonumber(kept["changed:"])
local mode_is_lost = is_lost("", tonumber(ARGV[3]))
if mode_is_lost then
  mode, mode_changed = ARGV[2], tonumber(ARGV[3])
end
for field in pairs(kept) do
  newer_here = newer_here or string.sub(field, 1, 8) == "changed:"
end
if #users > 0 or mode_is_lost or revision < given then
  revision = (newer_here or revision >= given) and math.max(revision, given) + 1 or given
  put_policy(revision, mode, mode_changed, users)
end
return {"OK", int(revision), seq}
