-- Each maximal stretch in which a broker was absent, was not writable (unwritable), or was absent or unknown (away).
-- began, ended: false if the state before or after the stretch is unknown, so that nobody saw when it began or ended.
WITH kinds AS (
    SELECT * FROM VALUES ('absent', array('absent')), ('unwritable', array('absent', 'read_only')),
        ('away', array('absent', 'unknown')) AS kinds(kind, states)
),
neighbours AS (
    SELECT broker_name, state, from_ms, to_ms, lag(state) OVER past AS before, lead(state) OVER past AS after
    FROM state WINDOW past AS (PARTITION BY broker_name ORDER BY from_ms)
),
numbered AS (
    SELECT *, count_if(NOT coalesce(array_contains(states, before), false))
        OVER (PARTITION BY kind, broker_name ORDER BY from_ms) AS number
    FROM neighbours CROSS JOIN kinds WHERE array_contains(states, state)
)
SELECT kind, broker_name, min(from_ms) AS from_ms, max_by(to_ms, from_ms) AS to_ms,
    NOT min_by(before, from_ms) <=> 'unknown' AS began,
    max_by(to_ms, from_ms) IS NOT NULL AND NOT max_by(after, from_ms) <=> 'unknown' AS ended
FROM numbered GROUP BY kind, broker_name, number
