--[[ note_auth_used: store that secrets were used just now
  KEYS[1] meta  HASH
  ARGV[1...] pairs of a user's name and the id of its secret
  DERIVED mqauth: used, users
  RETURNS {"OK", noted}: how many secrets were noted; a secret that its user no longer has is left out
  EVENTS  none
  REPEAT  stores a later time      COST O(pairs) ]]
--- @include "include/open"
--- @include "include/expect"
--- @include "include/auth"
expect("hash", A .. "used", A .. "users")
local flat = {}
for i = 1, #ARGV, 2 do
  local user = call("HGET", A .. "users", ARGV[i])
  if user and string.find(user, '"id":' .. cjson.encode(ARGV[i + 1]), 1, true) then
    flat[#flat + 1] = ARGV[i + 1]
    flat[#flat + 1] = int(now_ms)
  end
end
if #flat > 0 then
  call("HSET", A .. "used", unpack(flat))
end
return {"OK", #flat / 2}
