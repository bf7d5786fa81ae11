--[[ forget_reader: remove a reader of the streams; no entries are kept for it any more
  KEYS[1] meta    HASH
  ARGV[1] reader
  DERIVED readers
  RETURNS {"OK", 1 if it was there, else 0}
  EVENTS  none
  REPEAT  no effect      COST O(1) ]]
--- @include "include/open"
return {"OK", call("HDEL", P .. "readers", ARGV[1])}
