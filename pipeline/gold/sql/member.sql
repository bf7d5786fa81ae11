-- Which cluster a broker's row named last, as of the end of each period.
SELECT grain, p.from_ms, p.last_ms, broker_name, max_by(cluster, struct(a.from_ms, from_seq)) AS cluster,
    bool_or(a.to_ms IS NULL OR a.to_ms > p.last_ms) AS present
FROM period p JOIN broker_addr a ON a.from_ms <= p.last_ms
GROUP BY grain, p.from_ms, p.last_ms, broker_name
