-- The hours and days that are worked out: [from_ms, full_ms), as far as it was observed (to_ms).
-- last_ms: the moment at whose state something is so "at the end".
SELECT grain, from_ms, from_ms + step AS full_ms, least(from_ms + step, {now_ms}) AS to_ms,
    least(from_ms + step - 1, {now_ms}) AS last_ms, date_format(timestamp_millis(from_ms), 'yyyy-MM-dd') AS day
FROM (
    SELECT grain, step, explode(sequence({since_ms} - pmod({since_ms}, step), {now_ms} - 1, step)) AS from_ms
    FROM VALUES ('hour', 3600000L), ('day', 86400000L) AS grains(grain, step)
)
