-- How regularly each broker process was heard in a period, at the front end that heard it most often on that day (if
-- several did, the first by name). Beats are missed where an interval is longer than expected_ms: the median, on that
-- day, of the intervals between two beats by the request that the process sends most often. Percentiles: nearest rank.
WITH heard AS (
    SELECT grain, date_trunc(grain, period_start) AS period_start, date_trunc('day', period_start) AS day, who, front_end,
        broker_name, named_id_ms, named_id_n, beats, refused, intervals, periods
    FROM front_end_heartbeat CROSS JOIN (VALUES ('hour'), ('day') AS grains(grain))
),
usual AS (
    SELECT day, who, min_by(front_end, struct(-beats, front_end)) AS front_end
    FROM (SELECT day, who, front_end, sum(beats) AS beats FROM heard WHERE grain = 'day' GROUP BY day, who, front_end)
    GROUP BY day, who
),
intervals AS (
    SELECT grain, period_start, day, who, each.interval_ms, sum(each.beats) AS beats
    FROM (SELECT grain, period_start, day, who, explode(intervals) AS each FROM heard JOIN usual USING (day, who, front_end))
    GROUP BY grain, period_start, day, who, each.interval_ms
),
ranked AS (
    SELECT *, sum(beats) OVER (PARTITION BY grain, period_start, who) AS all_beats,
        sum(beats) OVER (PARTITION BY grain, period_start, who ORDER BY interval_ms) AS up_to
    FROM intervals
),
percentiles AS (
    SELECT grain, period_start, day, who, max(interval_ms) AS interval_ms_max,
        min(CASE WHEN up_to * 100 >= all_beats * 50 THEN interval_ms END) AS interval_ms_p50,
        min(CASE WHEN up_to * 100 >= all_beats * 99 THEN interval_ms END) AS interval_ms_p99
    FROM ranked GROUP BY grain, period_start, day, who
),
requests AS (
    SELECT day, who, each.request, each.interval_ms, sum(each.beats) AS beats
    FROM (SELECT day, who, explode(periods) AS each FROM heard JOIN usual USING (day, who, front_end) WHERE grain = 'day')
    GROUP BY day, who, each.request, each.interval_ms
),
ranked_requests AS (
    SELECT *, sum(beats) OVER (PARTITION BY day, who, request) AS all_beats,
        sum(beats) OVER (PARTITION BY day, who, request ORDER BY interval_ms) AS up_to
    FROM requests
),
expected AS (
    SELECT day, who, min_by(median_ms, struct(-all_beats, median_ms)) AS expected_ms
    FROM (
        SELECT day, who, request, all_beats, min(CASE WHEN up_to * 100 >= all_beats * 50 THEN interval_ms END) AS median_ms
        FROM ranked_requests GROUP BY day, who, request, all_beats
    )
    GROUP BY day, who
),
missed AS (
    SELECT grain, period_start, who,
        sum(greatest(CAST(rint(interval_ms / nullif(expected_ms, 0)) AS BIGINT) - 1, 0) * beats) AS missed_beats
    FROM intervals JOIN expected USING (day, who) GROUP BY grain, period_start, who
),
signs AS (
    SELECT grain, period_start, day, who, sum(beats) AS beats, sum(refused) AS refused,
        count(DISTINCT CASE WHEN beats > 0 THEN front_end END) AS front_ends,
        max_by(broker_name, CASE WHEN broker_name IS NOT NULL THEN struct(named_id_ms, named_id_n) END) AS broker_name
    FROM heard GROUP BY grain, period_start, day, who
)
SELECT grain, period_start, who, broker_name, beats, refused, front_ends, interval_ms_p50, interval_ms_p99,
    interval_ms_max, expected_ms, coalesce(missed_beats, 0) AS missed_beats
FROM signs
LEFT JOIN percentiles USING (grain, period_start, day, who)
LEFT JOIN expected USING (day, who)
LEFT JOIN missed USING (grain, period_start, who)
