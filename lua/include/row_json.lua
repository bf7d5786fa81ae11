--[[ row_json: the broker row as the change stream shows it
  GIVES  is_broker_id(field)
         row_json(row) -> JSON text; row is the HASH broker:<brokerName> as a Lua table ]]
local function is_broker_id(field)
  return string.find(field, "^-?%d+$") ~= nil
end

local function row_json(row)
  local addrs = {}
  for field, value in pairs(row) do
    if is_broker_id(field) then
      addrs[#addrs + 1] = '"' .. field .. '":' .. cjson.encode(value)
    end
  end
  table.sort(addrs)
  return '{"cluster":' .. cjson.encode(row.cluster)
    .. (row.zone and (',"zone":' .. cjson.encode(row.zone)) or "")
    .. ',"acting":' .. (row.acting == "1" and "true" or "false")
    .. ',"addrs":{' .. table.concat(addrs, ",") .. "}}"
end
