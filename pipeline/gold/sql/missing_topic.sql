-- Names that were looked up although no such topic existed.
SELECT grain, period_start, topic, missing AS lookups FROM lookup WHERE missing > 0
