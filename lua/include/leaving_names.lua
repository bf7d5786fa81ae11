--[[ leaving_names: the brokerNames whose queue data counts for nobody, read only
  NEEDS  open
  GIVES  leaving_names() -> name -> true, nil when there is none: include/leaving says what they are
  USED BY snapshot, delete_topic, register_topic ]]
local function leaving_names()
  local flat, names = call("HGETALL", P .. "leaving"), nil
  for i = 1, #flat, 2 do
    names = names or {}
    names[flat[i]] = true
  end
  return names
end
