-- How many brokers, topics and write queues a cluster had at the end of the period, how evenly they were spread, and
-- how many queue data of its brokers changed.
WITH held AS (
    SELECT grain, p.from_ms, q.broker_name, topic, write_queue_nums
    FROM queue_data q JOIN period p ON q.from_ms <= last_ms AND (q.to_ms IS NULL OR q.to_ms > last_ms)
),
queues AS (
    SELECT grain, from_ms, broker_name, sum(write_queue_nums) AS write_queues FROM held
    GROUP BY grain, from_ms, broker_name
),
topics AS (
    SELECT grain, from_ms, cluster, count(DISTINCT topic) AS topics
    FROM held JOIN member USING (grain, from_ms, broker_name) WHERE present
    GROUP BY grain, from_ms, cluster
),
changes AS (
    SELECT grain, from_ms, broker_name, count(*) AS changes FROM changed JOIN period ON ms BETWEEN from_ms AND last_ms
    GROUP BY grain, from_ms, broker_name
),
brokers AS (
    SELECT grain, from_ms, cluster, present, coalesce(changes, 0) AS changes,
        CASE WHEN present THEN coalesce(write_queues, 0) END AS write_queues
    FROM member
    LEFT JOIN queues USING (grain, from_ms, broker_name)
    LEFT JOIN changes USING (grain, from_ms, broker_name)
    WHERE NOT EXISTS (SELECT 1 FROM gap WHERE stream = 'changes' AND gap.from_ms <= last_ms AND last_ms < gap.to_ms)
),
sums AS (
    SELECT grain, from_ms, cluster, count_if(present) AS brokers, coalesce(sum(write_queues), 0) AS write_queues,
        sum(changes) AS changes,
        sum(write_queues * write_queues) AS squares, max(write_queues) AS most
    FROM brokers GROUP BY grain, from_ms, cluster
)
SELECT grain, timestamp_millis(from_ms) AS period_start, cluster, brokers, coalesce(topics, 0) AS topics, write_queues,
    changes,
    sqrt(brokers * squares - write_queues * write_queues) / nullif(write_queues, 0) AS queue_cv,
    most * brokers / nullif(write_queues, 0) AS queue_max_mean
FROM sums LEFT JOIN topics USING (grain, from_ms, cluster)
WHERE brokers > 0 OR changes > 0
