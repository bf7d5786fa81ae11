-- Every stretch of time in which a broker was writable, read_only, absent or unknown, from its first appearance on.
-- Earlier refreshes know the states before {since_ms} (known_state); the later ones are computed again.
WITH marks AS ( -- how many addresses, addresses under id 0, and writable queue data begin (1) or end (-1) at a moment
    SELECT broker_name, greatest(from_ms, {since_ms}) AS at_ms, from_seq, cluster, 1 AS addresses,
        CAST(broker_id = 0 AS INT) AS masters, 0 AS queues
    FROM broker_addr WHERE to_ms IS NULL OR to_ms >= {since_ms}
    UNION ALL
    SELECT broker_name, to_ms, NULL, NULL, -1, -CAST(broker_id = 0 AS INT), 0 FROM broker_addr
    WHERE to_ms >= {since_ms}
    UNION ALL
    SELECT broker_name, greatest(from_ms, {since_ms}), NULL, NULL, 0, 0, 1 FROM queue_data
    WHERE is_writable
    UNION ALL
    SELECT broker_name, to_ms, NULL, NULL, 0, 0, -1 FROM queue_data WHERE to_ms IS NOT NULL AND is_writable
    UNION ALL
    SELECT DISTINCT broker_name, {since_ms}, NULL, NULL, 0, 0, 0 FROM known_state
),
sums AS (
    SELECT broker_name, at_ms, max_by(cluster, from_seq) AS cluster, sum(sum(addresses)) OVER past AS addresses,
        sum(sum(masters)) OVER past AS masters, sum(sum(queues)) OVER past AS queues
    FROM marks GROUP BY broker_name, at_ms
    WINDOW past AS (PARTITION BY broker_name ORDER BY at_ms)
),
points AS (
    SELECT broker_name, at_ms, cluster,
        CASE WHEN addresses = 0 THEN 'absent' WHEN masters > 0 AND queues > 0 THEN 'writable' ELSE 'read_only' END AS state
    FROM sums
    UNION ALL
    SELECT broker_name, from_ms, cluster, state FROM known_state WHERE from_ms < {since_ms}
),
named AS (
    SELECT broker_name, at_ms, state, last_value(cluster) IGNORE NULLS OVER past AS cluster,
        lag(state) OVER past AS before,
        min(CASE WHEN state <> 'absent' THEN at_ms END) OVER (PARTITION BY broker_name) AS first_ms
    FROM points
    WINDOW past AS (PARTITION BY broker_name ORDER BY at_ms)
),
stretches AS (
    SELECT broker_name, cluster, state, at_ms AS from_ms,
        lead(at_ms) OVER (PARTITION BY broker_name ORDER BY at_ms) AS to_ms
    FROM named WHERE at_ms >= first_ms AND NOT state <=> before
),
-- In a gap the state of a broker is unknown, except that a broker that left and never returned is absent.
cut AS (
    SELECT s.*, gap.from_ms AS gap_from_ms, gap.to_ms AS gap_to_ms
    FROM stretches s JOIN gap ON gap.stream = 'changes' AND gap.from_ms < coalesce(s.to_ms, gap.to_ms)
        AND gap.to_ms > s.from_ms AND NOT (s.state = 'absent' AND s.to_ms IS NULL)
),
pieces AS (
    SELECT broker_name, cluster, state, from_ms FROM stretches s
    WHERE NOT EXISTS (
        SELECT 1 FROM cut WHERE cut.broker_name = s.broker_name AND cut.from_ms = s.from_ms AND gap_from_ms <= cut.from_ms)
    UNION ALL
    SELECT broker_name, cluster, 'unknown', greatest(from_ms, gap_from_ms) FROM cut
    UNION ALL
    SELECT broker_name, cluster, state, gap_to_ms FROM cut WHERE to_ms IS NULL OR gap_to_ms < to_ms
),
changed AS (
    SELECT *, lag(state) OVER (PARTITION BY broker_name ORDER BY from_ms) AS before FROM pieces
)
SELECT cluster, broker_name, state, timestamp_millis(from_ms) AS valid_from,
    timestamp_millis(lead(from_ms) OVER (PARTITION BY broker_name ORDER BY from_ms)) AS valid_to
FROM changed WHERE NOT state <=> before
