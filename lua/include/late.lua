--[[ late: recognise an unregistration that is executed long after it was sent
  GIVES  heard_since(who, said_ago_ms, known_up_since, renewed_ms): whether the broker sent a heartbeat after it sent
         the unregistration. Then the broker has come back, and the caller ignores the unregistration.
         known_up_since, renewed_ms: result and time of the caller's last lease renewal, "" = it has no lease. After a
         gap since the renewal (gap_since of include/seen), every heartbeat after the renewal counts as later ]]
--- @include "include/seen"
local function heard_since(who, said_ago_ms, known_up_since, renewed_ms)
  local update_ms = tonumber(call("HGET", P .. "live:" .. who, "update_ms") or "")
  local ago_ms, renewed = tonumber(said_ago_ms), tonumber(renewed_ms)
  if not update_ms then
    return false
  end
  if gap_since(known_up_since) and (update_ms >= renewed or now_ms < renewed) then
    return true
  end
  return ago_ms > 0 and now_ms - update_ms < ago_ms
end
