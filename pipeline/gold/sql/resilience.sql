-- For how long a topic existed, and for how long of that it would have stayed writable after the loss of any one broker,
-- host or zone. The loss of a zone does not affect a broker without a zone.
WITH places AS ( -- what makes a topic writable: brokers, hosts of their masters, zones
    SELECT topic, 'queue' AS kind, broker_name AS place, from_ms, to_ms FROM queue_data
    UNION ALL SELECT topic, 'broker', broker_name, from_ms, to_ms FROM writable
    UNION ALL SELECT topic, 'host', regexp_replace(addr, ':[0-9]+$', ''), from_ms, to_ms FROM writable
    UNION ALL
    SELECT topic, CASE WHEN zone IS NULL THEN 'unzoned' ELSE 'zone' END, coalesce(zone, broker_name),
        greatest(w.from_ms, r.from_ms), least(w.to_ms, r.to_ms)
    FROM writable w JOIN broker_row r USING (broker_name)
    WHERE w.from_ms < coalesce(r.to_ms, {now_ms} + 1) AND r.from_ms < coalesce(w.to_ms, {now_ms} + 1)
    UNION ALL
    SELECT topic, 'lost', '', from_ms, to_ms
    FROM (SELECT DISTINCT topic FROM queue_data) CROSS JOIN gap WHERE stream = 'changes'
),
marks AS ( -- a value in a place begins (1) or ends (-1) at a moment
    SELECT topic, kind, place, greatest(from_ms, {since_ms}) AS at_ms, 1 AS mark FROM places
    UNION ALL SELECT topic, kind, place, greatest(to_ms, {since_ms}), -1 FROM places WHERE to_ms IS NOT NULL
),
held AS (
    SELECT topic, kind, place, at_ms, CAST(sum(sum(mark)) OVER (PARTITION BY topic, kind, place ORDER BY at_ms) > 0 AS INT) AS is_there
    FROM marks GROUP BY topic, kind, place, at_ms
),
turns AS (
    SELECT topic, kind, at_ms, is_there - lag(is_there, 1, 0) OVER (PARTITION BY topic, kind, place ORDER BY at_ms) AS turn
    FROM held
),
sums AS ( -- how many different places of each kind there are from at_ms to to_ms
    SELECT topic, at_ms, lead(at_ms, 1, {now_ms}) OVER past AS to_ms,
        sum(sum(CASE WHEN kind = 'queue' THEN turn ELSE 0 END)) OVER past AS queues,
        sum(sum(CASE WHEN kind = 'broker' THEN turn ELSE 0 END)) OVER past AS brokers,
        sum(sum(CASE WHEN kind = 'host' THEN turn ELSE 0 END)) OVER past AS hosts,
        -- a broker without a zone counts as two zones: no loss of a zone affects it
        sum(sum(CASE kind WHEN 'zone' THEN turn WHEN 'unzoned' THEN 2 * turn ELSE 0 END)) OVER past AS zones,
        sum(sum(CASE WHEN kind = 'lost' THEN turn ELSE 0 END)) OVER past AS lost
    FROM turns GROUP BY topic, at_ms
    WINDOW past AS (PARTITION BY topic ORDER BY at_ms)
),
lasting AS (
    SELECT grain, p.from_ms, topic, brokers, hosts, zones, least(s.to_ms, p.to_ms) - greatest(at_ms, p.from_ms) AS ms
    FROM sums s JOIN period p ON at_ms < p.to_ms AND s.to_ms > p.from_ms
    WHERE queues > 0 AND lost = 0
)
SELECT grain, timestamp_millis(from_ms) AS period_start, topic, sum(ms) AS routable_ms,
    sum(CASE WHEN brokers > 1 THEN ms ELSE 0 END) AS broker_loss_ms,
    sum(CASE WHEN hosts > 1 THEN ms ELSE 0 END) AS host_loss_ms,
    sum(CASE WHEN zones > 1 THEN ms ELSE 0 END) AS zone_loss_ms,
    sum(CASE WHEN brokers > 1 AND hosts > 1 AND zones > 1 THEN ms ELSE 0 END) AS any_loss_ms,
    any_loss_ms / routable_ms AS score
FROM lasting GROUP BY grain, from_ms, topic
