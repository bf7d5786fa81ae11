--[[ collect: free the memory of texts that are no longer used
  GIVES  collect(): to be called after every few hundred names.
         Lua hashes only every second character of a text of 32 to 63, every fourth of one of 100, and finds equal texts
         by walking through all that have the same hash. If ten thousand names that end in numbers are in memory, a
         hundred of them share each hash; an attacker can choose names that all share one. So scripts read some hundred
         names, and free these before they read the next. ]]
local WHOLE_HEAP_KB = 100000 -- the step runs to the end of a cycle; a full collection would go over everything twice

local function collect()
  pcall(collectgarbage, "step", WHOLE_HEAP_KB) -- Redis has it; a server that only imitates Redis may not
end
