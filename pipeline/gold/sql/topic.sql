-- For how long each topic existed and took messages, its lookups and changes, and its queues at the end of the period.
WITH marks AS ( -- queue data (queues), those that take messages (writable), and gaps (lost) that begin (1) or end (-1)
    SELECT topic, greatest(from_ms, {since_ms}) AS at_ms, 1 AS queues, 0 AS writable, 0 AS lost FROM queue_data
    UNION ALL SELECT topic, to_ms, -1, 0, 0 FROM queue_data WHERE to_ms IS NOT NULL
    UNION ALL SELECT topic, greatest(from_ms, {since_ms}), 0, 1, 0 FROM writable
    UNION ALL SELECT topic, to_ms, 0, -1, 0 FROM writable WHERE to_ms IS NOT NULL
    UNION ALL
    SELECT topic, ms, 0, 0, mark
    FROM (SELECT DISTINCT topic FROM queue_data) CROSS JOIN (
        SELECT inline(array(struct(from_ms AS ms, 1 AS mark), struct(to_ms AS ms, -1 AS mark)))
        FROM gap WHERE stream = 'changes'
    )
),
sums AS (
    SELECT topic, at_ms, sum(sum(queues)) OVER past AS queues, sum(sum(writable)) OVER past AS writable,
        sum(sum(lost)) OVER past AS lost, lead(at_ms, 1, {now_ms}) OVER past AS to_ms
    FROM marks GROUP BY topic, at_ms
    WINDOW past AS (PARTITION BY topic ORDER BY at_ms)
),
lasting AS (
    SELECT grain, from_ms, topic, sum(CASE WHEN queues > 0 THEN ms END) AS routable_ms,
        sum(CASE WHEN writable > 0 THEN ms END) AS writable_ms
    FROM (
        SELECT grain, p.from_ms, topic, queues, writable, least(s.to_ms, p.to_ms) - greatest(at_ms, p.from_ms) AS ms
        FROM sums s JOIN period p ON at_ms < p.to_ms AND s.to_ms > p.from_ms
        WHERE queues > 0 AND lost = 0
    )
    GROUP BY grain, from_ms, topic
),
changes AS (
    SELECT grain, from_ms, topic, count(*) AS changes FROM changed JOIN period ON ms BETWEEN from_ms AND last_ms
    GROUP BY grain, from_ms, topic
),
at_end AS (
    SELECT grain, p.from_ms, topic, count(*) AS brokers, sum(write_queue_nums) AS write_queues,
        sum(write_queue_nums * write_queue_nums) AS squares, max(write_queue_nums) AS most
    FROM queue_data q JOIN period p ON q.from_ms <= last_ms AND (q.to_ms IS NULL OR q.to_ms > last_ms)
    GROUP BY grain, p.from_ms, topic
)
SELECT grain, timestamp_millis(from_ms) AS period_start, topic, coalesce(routable_ms, 0) AS routable_ms,
    coalesce(writable_ms, 0) AS writable_ms, coalesce(found, 0) AS lookups, coalesce(changes, 0) AS changes,
    coalesce(brokers, 0) AS brokers, coalesce(write_queues, 0) AS write_queues,
    -- population standard deviation / mean, and greatest / mean
    sqrt(brokers * squares - write_queues * write_queues) / nullif(write_queues, 0) AS queue_cv,
    most * brokers / nullif(write_queues, 0) AS queue_max_mean
FROM lasting
FULL JOIN changes USING (grain, from_ms, topic)
LEFT JOIN at_end USING (grain, from_ms, topic)
LEFT JOIN (SELECT grain, unix_millis(period_start) AS from_ms, topic, found FROM lookup) USING (grain, from_ms, topic)
WHERE routable_ms > 0 OR changes > 0
