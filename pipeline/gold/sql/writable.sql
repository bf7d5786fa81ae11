-- Where and when a topic took messages: its queue data is writable, and the broker has a master.
SELECT topic, broker_name, greatest(q.from_ms, a.from_ms) AS from_ms, least(q.to_ms, a.to_ms) AS to_ms, addr
FROM queue_data q JOIN broker_addr a USING (broker_name)
WHERE broker_id = 0 AND is_writable
    AND q.from_ms < coalesce(a.to_ms, {now_ms} + 1) AND a.from_ms < coalesce(q.to_ms, {now_ms} + 1)
    AND coalesce(a.to_ms, {now_ms} + 1) > {since_ms}
