--[[ collect: free the memory of texts that are no longer used
  GIVES  collect(): a script calls it after every few hundred names, before it reads the next names.
         Without it, names cost quadratic time: Lua hashes only some characters of a long text, and compares each new
         text with all texts in memory that have the same hash. Of ten thousand names that end in numbers, a hundred
         share each hash; an attacker can choose names that all share one hash. ]]
local WHOLE_HEAP_KB = 100000 -- the step runs to the end of a cycle; a full collection would go over everything twice

local function collect()
  pcall(collectgarbage, "step", WHOLE_HEAP_KB) -- Redis has it; a server that only imitates Redis may not
end
