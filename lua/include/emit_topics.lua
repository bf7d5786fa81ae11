--[[ emit_topics: append one change as several events (parts), if one event cannot have all its topics
  GIVES  emit_topics(type, broker_name, members, bodies): bodies are JSON texts of <= 500 topics, one for each event.
         It sets the row's rev to the seq of the last event ]]
--- @include "include/emit"
local function emit_topics(kind, broker_name, members, bodies)
  local parts = math.max(1, #bodies)
  local rev = int(seq + parts)
  call("HSET", P .. "broker:" .. broker_name, "rev", rev)
  for part = 1, parts do
    emit(kind, ',"broker_name":' .. cjson.encode(broker_name) .. ',"rev":' .. rev
      .. (parts > 1 and (',"part":' .. part .. ',"parts":' .. parts) or "")
      .. (part == 1 and members or ""), bodies[part])
  end
  return rev
end
