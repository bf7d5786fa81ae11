--[[ in_chunks: one command over many members, below Lua's limit of what unpack can push
  GIVES  in_chunks(command, key, members) ]]
local function in_chunks(command, key, members)
  for first = 1, #members, 4000 do
    call(command, key, unpack(members, first, math.min(first + 3999, #members)))
  end
end
