--[[ in_chunks: one command over many members, as unpack cannot return more than some thousand at a time
  GIVES  in_chunks(command, key, members) ]]
local function in_chunks(command, key, members)
  for first = 1, #members, 4000 do
    call(command, key, unpack(members, first, math.min(first + 3999, #members)))
  end
end
