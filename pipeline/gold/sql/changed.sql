-- Queue data that began, and queue data that ended. Queue data that came with a snapshot do not count as begun.
SELECT topic, broker_name, from_ms AS ms FROM queue_data
WHERE from_ms >= {since_ms} AND from_seq NOT IN (SELECT seq FROM snapshot)
UNION ALL
SELECT topic, broker_name, to_ms FROM queue_data WHERE to_ms >= {since_ms}
