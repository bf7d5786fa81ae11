-- Topics that existed, and that nobody looked up.
SELECT grain, period_start, topic, routable_ms FROM topic WHERE lookups = 0 AND routable_ms > 0
