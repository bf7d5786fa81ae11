-- The alarms that the registry raised about its streams.
SELECT timestamp_millis(ms) AS at, seq, alarm, reader, stream FROM event
WHERE type = 'stream_alarm' AND ms BETWEEN {since_ms} AND {now_ms}
