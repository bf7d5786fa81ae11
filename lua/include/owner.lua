--[[ owner: which user asks for a change, which of his rights were checked, and which user owns a broker process
  The argument owner of a script is "" if authentication is off. Else it is "=" (mode enforce: the caller must not
  change brokers of other users) or "~" (mode observe: he may, and the reply names the owner), the user's name ("" =
  anonymous), a line feed, and a line for each resource for which his right was checked: cluster:NAME, broker:NAME, or
  * for all resources.
  GIVES  asked_by(argument) -> caller (nil: authentication is off), enforced
         ask_for(argument, resources) -> {"ASK", seq, resource, ...}: the resources for which the right was not checked;
         the script returns this before it writes. nil: all were checked
         names_in(asks, fields) adds broker:NAME for each brokerName among the fields of a live info
         foreign(caller, user, n) -> the owner if it is not the caller, else nil. user and n are fields of the live
         info. user is "<n> <owner>", and counts only if its n is equal: an older release, which knows no owners, writes
         a new n and leaves user as it is.
         foreign_at(caller, addr) -> the owner of an address in any cluster, if it is not the caller ]]
local function asked_by(argument)
  if argument == "" then
    return nil, false
  end
  return string.match(argument, "^.([^\n]*)"), string.sub(argument, 1, 1) == "="
end

local function ask_for(argument, resources)
  if argument == "" or string.find(argument, "\n*\n", 1, true) then
    return nil
  end
  local asks, last = {"ASK", seq}, nil
  for i = 1, #resources do
    if resources[i] ~= last and not string.find(argument, "\n" .. resources[i] .. "\n", 1, true) then
      asks[#asks + 1] = resources[i]
    end
    last = resources[i]
  end
  return asks[3] and asks
end

local function names_in(asks, fields)
  for i = 1, #fields do
    if string.sub(fields[i], 1, 5) == "name:" then
      asks[#asks + 1] = "broker:" .. string.sub(fields[i], 6)
    end
  end
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
  clusters[#clusters + 1] = "" -- with compat 4.8 live infos are kept under no cluster
  for i = 1, #clusters do
    local found = call("HMGET", P .. "live:" .. clusters[i] .. "|" .. addr, "user", "n")
    local owner = foreign(caller, found[1], found[2])
    if owner then
      return owner
    end
  end
end
