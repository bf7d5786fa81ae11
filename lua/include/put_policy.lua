--[[ put_policy: write users and the mode of authentication, and tell every front end that there is another revision
  NEEDS  open, expect, emit, auth
  GIVES  put_policy(revision, mode, first, all): ARGV from first on are pairs of a user's name and its JSON, "" removes
         it. all: there are no other users. Secrets that are gone take the time of their last use with them.
         The event names the revision only, and meta has a copy of it for renew_lease, whose callers need not be able to
         read the rest. While the mode is enforce, the schema major in meta ends in "+auth": a release that knows no
         authentication does not start then.
  USED BY change_auth, restore_auth ]]
expect("hash", A .. "policy", A .. "users", A .. "used")

local function secret_ids(user)
  local ids = {}
  for _, secret in ipairs(user and cjson.decode(user).secrets or {}) do
    ids[#ids + 1] = secret.id
  end
  return ids
end

local function put_policy(revision, mode, first, all)
  local set, removed, gone = {}, {}, {}
  for i = first, #ARGV, 2 do
    local name, user = ARGV[i], ARGV[i + 1]
    for _, id in ipairs(secret_ids(call("HGET", A .. "users", name))) do
      gone[id] = true
    end
    if user == "" then
      removed[#removed + 1] = name
    else
      set[#set + 1] = name
      set[#set + 1] = user
      for _, id in ipairs(secret_ids(user)) do
        gone[id] = nil
      end
    end
  end
  local major = string.match(call("HGET", KEYS[1], "schema"), "^%d+")
  call("HSET", A .. "policy", "mode", mode, "revision", int(revision))
  if all then
    call("DEL", A .. "users", A .. "used")
  end
  for i = 1, #set, 2 do
    call("HSET", A .. "users", set[i], set[i + 1])
  end
  for i = 1, #removed do
    call("HDEL", A .. "users", removed[i])
  end
  for id in pairs(gone) do
    call("HDEL", A .. "used", id)
  end
  call("HSET", KEYS[1], "auth_revision", int(revision), "schema", major .. (mode == "enforce" and "+auth" or ""))
  emit("auth_changed", ',"ignorable":true,"revision":' .. int(revision))
end
