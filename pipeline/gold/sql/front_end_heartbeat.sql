-- What a front end heard of a broker process in an hour: beats, refused registrations, and how often each interval
-- occurred.
-- An interval is the time since the last beat at this front end, if that was at most an hour ago; else the time since the
-- last sign of life at any front end. No interval contains a removal of the process or a gap of the stream.
-- periods: how often each interval between two beats by the same request (registration or heartbeat) occurred, because a
-- broker may send both, each regularly.
WITH beats AS (
    SELECT who, front_end, nullif(broker_name, '') AS broker_name, ms, id_ms, id_n, kind = 'refused' AS refused,
        CASE WHEN kind = 'touch' THEN 'heartbeat' ELSE 'registration' END AS request,
        coalesce(interval_ms, -1) AS interval_ms, size(filter(gaps, to_ms -> to_ms <= id_ms)) AS gaps
    FROM (
        SELECT *, (SELECT collect_list(to_ms) FROM gap WHERE stream = 'heartbeats') AS gaps
        FROM heartbeats
    )
),
lives AS (
    SELECT *, count_if(interval_ms < 0 AND NOT refused) OVER (PARTITION BY who ORDER BY id_ms, id_n) AS life FROM beats
),
timed AS (
    SELECT *, timestamp_millis(ms - pmod(ms, 3600000)) AS period_start,
        ms - lag(ms) OVER (PARTITION BY who, front_end, refused, life, gaps ORDER BY id_ms, id_n) AS since_ms,
        ms - lag(ms) OVER (PARTITION BY who, front_end, refused, life, gaps, request ORDER BY id_ms, id_n) AS period_ms
    FROM lives
),
counted AS (
    SELECT period_start, who, front_end,
        CASE WHEN refused THEN NULL WHEN since_ms <= 3600000 THEN greatest(since_ms, 0)
            WHEN interval_ms > 3600000 THEN interval_ms END AS interval_ms,
        count_if(NOT refused) AS beats, count_if(refused) AS refused,
        max(CASE WHEN broker_name IS NOT NULL THEN struct(id_ms, id_n, broker_name) END) AS named
    FROM timed WHERE ms BETWEEN {since_ms} AND {now_ms}
    GROUP BY 1, 2, 3, 4
),
periods AS (
    SELECT period_start, who, front_end, sort_array(collect_list(struct(request, interval_ms, beats))) AS periods
    FROM (
        SELECT period_start, who, front_end, request, greatest(period_ms, 0) AS interval_ms, count(*) AS beats
        FROM timed WHERE ms BETWEEN {since_ms} AND {now_ms} AND NOT refused AND period_ms <= 3600000
        GROUP BY 1, 2, 3, 4, 5
    )
    GROUP BY period_start, who, front_end
)
SELECT period_start, who, front_end, max(named).broker_name AS broker_name, max(named).id_ms AS named_id_ms,
    max(named).id_n AS named_id_n, sum(beats) AS beats, sum(refused) AS refused,
    sort_array(collect_list(CASE WHEN interval_ms IS NOT NULL THEN struct(interval_ms, beats) END)) AS intervals,
    first(periods) AS periods
FROM counted LEFT JOIN periods USING (period_start, who, front_end)
GROUP BY period_start, who, front_end
