--[[ expect: refuse keys of the wrong type before anything is written, since Redis rolls nothing back
  GIVES  expect(kind, key...): an error that names the first key that exists and is of another type
         expect_hashes(keys): the same for many keys, most of which do not exist; one EXISTS covers a hundred of them ]]
local function expect(kind, ...)
  local keys = {...}
  for i = 1, #keys do
    local found = call("TYPE", keys[i]).ok
    if found ~= kind and found ~= "none" then
      error("WRONGTYPE " .. keys[i] .. " is a " .. found .. ", not a " .. kind .. ": not written by this registry", 0)
    end
  end
end

local function expect_hashes(keys)
  for first = 1, #keys, 100 do
    local last = math.min(first + 99, #keys)
    if call("EXISTS", unpack(keys, first, last)) > 0 then
      expect("hash", unpack(keys, first, last))
    end
  end
end
