--[[ keep_registered: when an operator changes queue data, store what the broker registered beside the new value
  A registration with the same DataVersion keeps the operator's value, unless the broker sends other queue data than it
  registered before (docs/differences.md D33).
  GIVES  keep_registered(data, before) -> the queue data to store; before: the queue data until now, false = none ]]
local function keep_registered(data, before)
  if not before or string.find(data, '"b":', 1, true) then
    return data
  end
  local registered = string.match(before, '"b":(%b[])')
  if not registered then
    local numbers = {string.match(before, '"r":(%-?%d+),"w":(%-?%d+),"p":(%-?%d+),"f":(%-?%d+)')}
    registered = "[" .. table.concat(numbers, ",") .. "]"
  end
  return string.sub(data, 1, -2) .. ',"b":' .. registered .. "}"
end
