--[[ owner: who asks for a change, what was decided for him, and whose a broker process is
  GIVES  asked_by(argument) -> caller, enforced. The argument: "" = nobody decides on requests, and caller is nil;
         "=" and the user's name: a broker that another user registered is left alone; "~" and the name: it is not, and
         the reply says whose it is. No name: a user who is not known. Behind the name a line feed, and lines: the
         resources that his right was decided on, cluster:NAME or broker:NAME; or *, all of them.
         ask_for(argument, resources) -> {"ASK", seq, resource, ...}: those of these that were not decided on: to be
         returned before anything is changed. nil: all were
         names_in(asks, fields) adds broker:NAME for each brokerName among the fields of a live info
         foreign(caller, user, n) -> the owner if it is not the caller, else nil. user and n are fields of the
         live info: "<n> <owner>" counts only for the registration n. A release that knows no owners leaves it as it was.
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
  clusters[#clusters + 1] = "" -- with compat 4.8
  for i = 1, #clusters do
    local found = call("HMGET", P .. "live:" .. clusters[i] .. "|" .. addr, "user", "n")
    local owner = foreign(caller, found[1], found[2])
    if owner then
      return owner
    end
  end
end
