--[[ int64: compare decimal numbers that a Lua double cannot hold
  GIVES  less(a, b) for canonical decimal strings (no leading zeros, no plus sign) ]]
local function less(a, b)
  local a_negative, b_negative = string.sub(a, 1, 1) == "-", string.sub(b, 1, 1) == "-"
  if a_negative ~= b_negative then
    return a_negative
  elseif a_negative then
    a, b = string.sub(b, 2), string.sub(a, 2)
  end
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end
