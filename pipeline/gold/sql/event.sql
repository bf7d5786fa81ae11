-- Brokers' events and alarms, each once, with its time (ms). An event from a clock of Redis that was ahead has the time
-- to which that clock was set back.
SELECT changes.seq, type, aggregate(
        steps, ms, (at, step) -> if(changes.seq < step.seq AND at - step.to_ms > 60000, step.to_ms, at)) AS ms,
    entry.broker_name, coalesce(entry.cluster, '') AS cluster, entry.alarm, entry.reader, entry.stream
FROM (
    SELECT seq, type, ms, from_json(e, 'broker_name string, cluster string, alarm string, reader string, stream string') AS entry
    FROM changes
    WHERE part = 1 AND seq <= {seq} AND type IN ('broker_registered', 'broker_expired', 'broker_closed',
        'broker_unregistered', 'broker_reaped', 'stream_alarm')
) changes
CROSS JOIN (SELECT array_sort(collect_list(struct(seq, to_ms))) AS steps FROM clock_step)
