--[[ owner: the user who registered a broker process, and whether the one who asks is another
  NEEDS  open
  GIVES  asked_by(argument) -> caller, enforced. The argument: "" = nobody decides on requests, and caller is nil;
         "=" and the user's name: a broker that another user registered is left alone; "~" and the name: it is not, and
         the reply says whose it is. No name: a user who is not known.
         foreign(caller, user, n) -> the owner if it is another than the caller, else nil. user and n are fields of the
         live info: "<n> <owner>" counts only for the registration n. A release that knows no owners leaves it as it was.
         foreign_at(caller, addr) -> the owner of an address in any cluster, if it is another than the caller
  USED BY heartbeat, register_broker, touch_broker, unregister_broker, unregister_broker_id ]]
local function asked_by(argument)
  if argument == "" then
    return nil, false
  end
  return string.sub(argument, 2), string.sub(argument, 1, 1) == "="
end

local function foreign(caller, user, n)
  local of, owner = string.match(user or "", "^(%d+) (.+)$")
  if caller and owner and of == n and owner ~= caller then
    return owner
  end
end

local function foreign_at(caller, addr)
  if not caller then
    return nil
  end
  local clusters = call("SMEMBERS", P .. "clusters")
  clusters[#clusters + 1] = "" -- with compat 4.8
  for i = 1, #clusters do
    local found = call("HMGET", P .. "live:" .. clusters[i] .. "|" .. addr, "user", "n")
    local owner = foreign(caller, found[1], found[2])
    if owner then
      return owner
    end
  end
end
