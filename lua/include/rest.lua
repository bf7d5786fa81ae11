--[[ rest: the position from which a later script continues a scan
  GIVES  cursor_of(rest) -> the cursor to continue from; "0", the beginning, for "" and for a rest from another server:
         a cursor is valid only at the server that gave it, so after a failover the scan begins again
         rest_of(cursor) -> rest, "" = the scan is complete ]]
local function this_server()
  return string.match(call("INFO", "server"), "run_id:(%x+)") or ""
end

local function cursor_of(rest)
  local server, cursor = string.match(rest or "", "^(%x*) (%d+)$")
  return cursor and server == this_server() and cursor or "0"
end

local function rest_of(cursor)
  return cursor ~= "0" and this_server() .. " " .. cursor or ""
end
