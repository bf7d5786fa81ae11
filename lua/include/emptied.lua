--[[ emptied: which of these topics have no queue data left
  NEEDS  open
  GIVES  emptied(topics, keys) -> list of topics; keys are topic:<topic> of each. Asks by hundreds (EXISTS counts
         many keys at once) and halves only where the answer is mixed: the usual cases, all gone or none gone,
         cost 1/100 of a call for each topic.
  USED BY remove_who, register_broker, delete_topic ]]
local function emptied(topics, keys)
  local gone = {}
  local function ask(first, last)
    local there = call("EXISTS", unpack(keys, first, last))
    if there == 0 then
      for i = first, last do
        gone[#gone + 1] = topics[i]
      end
    elseif there <= last - first then
      local middle = math.floor((first + last) / 2)
      ask(first, middle)
      ask(middle + 1, last)
    end
  end
  for first = 1, #topics, 100 do
    ask(first, math.min(first + 99, #topics))
  end
  return gone
end
