-- How many lookups of a name were answered with a route (found), and with "no such topic" (missing), in each hour.
WITH asked AS (
    SELECT ms - pmod(ms, 3600000) AS hour_ms, from_json(e, 'found map<string, bigint>, missing map<string, bigint>') AS of
    FROM lookups
),
counts AS (
    SELECT hour_ms, topic, found, 0L AS missing FROM asked LATERAL VIEW explode(of.found) AS topic, found
    UNION ALL
    SELECT hour_ms, topic, 0L, missing FROM asked LATERAL VIEW explode(of.missing) AS topic, missing
)
SELECT 'hour' AS grain, timestamp_millis(hour_ms) AS period_start, topic, sum(found) AS found, sum(missing) AS missing
FROM counts GROUP BY hour_ms, topic
