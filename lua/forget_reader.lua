--[[ forget_reader: remove a reader; entries that it has not acknowledged are no longer kept for it
  KEYS[1] meta    HASH
  ARGV[1] reader
  DERIVED readers
  RETURNS {"OK", 1 if it was there, else 0}
  EVENTS  none
  REPEAT  no effect      COST O(1) ]]
--- @include "include/open"
return {"OK", call("HDEL", P .. "readers", ARGV[1])}
