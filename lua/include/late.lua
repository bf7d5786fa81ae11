--[[ late: an unregistration that is executed long after it was sent
  GIVES  heard_since(who, said_ago_ms, known_up_since, renewed_ms): whether a sign of life of the broker came, over any
         connection, after it sent the unregistration. If so, the broker has come back, and the unregistration is
         ignored. If there was a gap (gap_since of include/seen) since the caller's last lease renewal, any sign of life
         after that renewal counts as later than the unregistration. known_up_since is what the renewal returned,
         renewed_ms its time; "" = the caller renews no lease ]]
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
