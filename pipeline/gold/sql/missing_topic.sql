-- Names that were looked up, and that were no topic.
SELECT grain, period_start, topic, missing AS lookups FROM lookup WHERE missing > 0
