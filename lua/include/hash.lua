--[[ hash: a HASH as a Lua table
  GIVES  hash(key) -> table, empty when there is no such key ]]
local function hash(key)
  local flat, out = call("HGETALL", key), {}
  for i = 1, #flat, 2 do
    out[flat[i]] = flat[i + 1]
  end
  return out
end
