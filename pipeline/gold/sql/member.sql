-- The cluster that each broker's row named last before the end of a period, and whether the broker was present then.
SELECT grain, p.from_ms, p.last_ms, broker_name, max_by(cluster, struct(a.from_ms, from_seq)) AS cluster,
    bool_or(a.to_ms IS NULL OR a.to_ms > p.last_ms) AS present
FROM period p JOIN broker_addr a ON a.from_ms <= p.last_ms
GROUP BY grain, p.from_ms, p.last_ms, broker_name
