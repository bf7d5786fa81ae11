-- The hours and days to compute, as far as they were observed: [from_ms, to_ms).
-- last_ms: the moment for which columns give the state "at the end of the period".
SELECT grain, from_ms, least(from_ms + step, {now_ms}) AS to_ms, least(from_ms + step - 1, {now_ms}) AS last_ms
FROM (
    SELECT grain, step, explode(sequence({since_ms} - pmod({since_ms}, step), {now_ms} - 1, step)) AS from_ms
    FROM VALUES ('hour', 3600000L), ('day', 86400000L) AS grains(grain, step)
)
