--[[ put_policy: write users and the mode of authentication, and tell every front end that there is a new revision
  GIVES  put_policy(revision, mode, mode_changed, users): users is a list of {name, JSON, changed}; JSON "" removes the
         user. changed and mode_changed: the revisions of these changes. It deletes the time of last use of a removed
         secret.
         The HASH policy has the revision of each user's last change, also of removed users. If it has more than
         MOST_REMOVED removed users, put_policy deletes them, and stores the highest of their revisions as "forgotten".
         meta has a copy of revision and mode for logins that cannot read the policy. ]]
--- @include "include/expect"
--- @include "include/emit"
--- @include "include/auth"
expect("hash", A .. "policy", A .. "users", A .. "used")

local function secret_ids(user)
  local ids = {}
  for _, secret in ipairs(user and cjson.decode(user).secrets or {}) do
    ids[#ids + 1] = secret.id
  end
  return ids
end

local MOST_REMOVED = 1000

local function forget_removed()
  if call("HLEN", A .. "policy") - call("HLEN", A .. "users") <= MOST_REMOVED + 4 then
    return
  end
  local fields, forgotten = call("HGETALL", A .. "policy"), -1
  for i = 1, #fields, 2 do
    local name = string.match(fields[i], "^changed:(.+)$")
    if name and call("HEXISTS", A .. "users", name) == 0 then
      forgotten = math.max(forgotten, tonumber(fields[i + 1]))
      call("HDEL", A .. "policy", fields[i])
    end
  end
  call("HSET", A .. "policy", "forgotten", int(forgotten))
end

local function put_policy(revision, mode, mode_changed, users)
  local gone = {}
  for _, user in ipairs(users) do
    for _, id in ipairs(secret_ids(call("HGET", A .. "users", user[1]))) do
      gone[id] = true
    end
    for _, id in ipairs(secret_ids(user[2] ~= "" and user[2])) do
      gone[id] = nil
    end
  end
  call("HSET", A .. "policy", "mode", mode, "revision", int(revision), "changed:", int(mode_changed))
  for _, user in ipairs(users) do
    if user[2] == "" then
      call("HDEL", A .. "users", user[1])
    else
      call("HSET", A .. "users", user[1], user[2])
    end
    call("HSET", A .. "policy", "changed:" .. user[1], int(user[3]))
  end
  for id in pairs(gone) do
    call("HDEL", A .. "used", id)
  end
  forget_removed()
  call("HSET", KEYS[1], "auth_revision", int(revision), "auth_mode", mode)
  emit("auth_changed", ',"ignorable":true,"revision":' .. int(revision))
end
