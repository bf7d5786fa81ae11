-- One row for each topic and each time between two changes: what the topic had, and what it would have kept after the
-- loss. A topic has a route while one of its brokers has an address. It has a master while one of them has an address
-- under id 0. It has a writable queue while a broker with a master has writable queue data.
WITH addresses AS (
    SELECT a.broker_name, a.broker_id, greatest(a.from_ms, r.from_ms, {from_ms}) AS from_ms,
        least(coalesce(a.to_ms, {to_ms}), coalesce(r.to_ms, {to_ms}), {to_ms}) AS to_ms, NOT ({lost}) AS is_kept
    FROM broker_addr a JOIN broker_row r USING (broker_name)
    WHERE a.from_ms < coalesce(r.to_ms, {to_ms}) AND r.from_ms < coalesce(a.to_ms, {to_ms})
),
broker_marks AS ( -- how many addresses and masters begin (1) or end (-1)
    SELECT broker_name, at_ms, sum(mark) AS addrs, sum(mark * CAST(broker_id = 0 AS INT)) AS masters,
        sum(mark * CAST(is_kept AS INT)) AS kept_addrs, sum(mark * CAST(is_kept AND broker_id = 0 AS INT)) AS kept_masters
    FROM (SELECT *, inline(array(struct(from_ms AS at_ms, 1 AS mark), struct(to_ms AS at_ms, -1 AS mark))) FROM addresses
        WHERE from_ms < to_ms)
    GROUP BY broker_name, at_ms
),
brokers AS (
    SELECT broker_name, at_ms AS from_ms, lead(at_ms) OVER past AS to_ms, sum(addrs) OVER past > 0 AS has_addr,
        sum(masters) OVER past > 0 AS has_master, sum(kept_addrs) OVER past > 0 AS keeps_addr,
        sum(kept_masters) OVER past > 0 AS keeps_master
    FROM broker_marks WINDOW past AS (PARTITION BY broker_name ORDER BY at_ms)
),
queues AS (
    SELECT topic, greatest(q.from_ms, b.from_ms) AS from_ms, least(coalesce(q.to_ms, b.to_ms), b.to_ms) AS to_ms,
        CAST(has_addr AS INT) AS routes, CAST(has_master AS INT) AS masters, CAST(has_master AND is_writable AS INT) AS queues,
        CAST(keeps_addr AS INT) AS kept_routes, CAST(keeps_master AS INT) AS kept_masters,
        CAST(keeps_master AND is_writable AS INT) AS kept_queues
    FROM queue_data q JOIN brokers b USING (broker_name)
    WHERE q.from_ms < b.to_ms AND b.from_ms < coalesce(q.to_ms, {to_ms})
),
marks AS (
    SELECT topic, at_ms, mark * routes AS routes, mark * masters AS masters, mark * queues AS queues,
        mark * kept_routes AS kept_routes, mark * kept_masters AS kept_masters, mark * kept_queues AS kept_queues, 0 AS unknown
    FROM (SELECT *, inline(array(struct(from_ms AS at_ms, 1 AS mark), struct(to_ms AS at_ms, -1 AS mark))) FROM queues)
    UNION ALL
    SELECT topic, at_ms, 0, 0, 0, 0, 0, 0, mark
    FROM (SELECT DISTINCT topic FROM queues) CROSS JOIN (
        SELECT inline(array(struct(from_ms AS at_ms, 1 AS mark), struct(to_ms AS at_ms, -1 AS mark)))
        FROM gap WHERE stream = 'changes')
),
levels AS (
    SELECT topic, at_ms, lead(at_ms, 1, {to_ms}) OVER past AS to_ms, sum(sum(routes)) OVER past AS routes,
        sum(sum(masters)) OVER past AS masters, sum(sum(queues)) OVER past AS queues,
        sum(sum(kept_routes)) OVER past AS kept_routes, sum(sum(kept_masters)) OVER past AS kept_masters,
        sum(sum(kept_queues)) OVER past AS kept_queues, sum(sum(unknown)) OVER past AS unknown
    FROM marks GROUP BY topic, at_ms WINDOW past AS (PARTITION BY topic ORDER BY at_ms)
)
SELECT topic, greatest(at_ms, {from_ms}) AS from_ms, least(to_ms, {to_ms}) AS to_ms,
    routes > 0 AND kept_routes = 0 AS loses_route, masters > 0 AND kept_masters = 0 AS loses_master,
    queues > 0 AND kept_queues = 0 AS loses_queue
FROM levels WHERE unknown = 0 AND routes > 0 AND at_ms < {to_ms} AND to_ms > {from_ms}
