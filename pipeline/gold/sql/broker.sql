-- Each broker's availability, absences, time to recover, flapping, and events.
WITH lasting AS ( -- a broker that left and has not returned is observed to the end of the period in which it left
    SELECT grain, p.from_ms, broker_name,
        sum(CASE WHEN state <> 'unknown' THEN ms END) AS observed_ms,
        sum(CASE WHEN state IN ('read_only', 'writable') THEN ms END) AS present_ms,
        sum(CASE WHEN state = 'writable' THEN ms END) AS writable_ms
    FROM (
        SELECT grain, p.from_ms, broker_name, state,
            least(coalesce(s.to_ms, p.to_ms), p.to_ms) - greatest(s.from_ms, p.from_ms) AS ms
        FROM state s JOIN period p ON s.from_ms < p.to_ms AND coalesce(s.to_ms, p.to_ms) > p.from_ms
        WHERE NOT (state = 'absent' AND s.to_ms IS NULL AND s.from_ms < p.from_ms)
    ) p
    GROUP BY grain, p.from_ms, broker_name
),
begun AS (
    SELECT grain, p.from_ms, broker_name, count_if(kind = 'absent') AS outages,
        count_if(kind = 'unwritable') AS unwritable_spells
    FROM spell s JOIN period p ON began AND s.from_ms BETWEEN p.from_ms AND p.last_ms
    GROUP BY grain, p.from_ms, broker_name
),
returned AS (
    SELECT grain, from_ms, broker_name,
        count(away_ms) AS recoveries, avg(away_ms) AS recovery_ms_mean, max(away_ms) AS recovery_ms_max,
        count_if(away_ms < {flap_ms}) AS flaps,
        count(unwritable_ms) AS write_recoveries, avg(unwritable_ms) AS write_recovery_ms_mean,
        max(unwritable_ms) AS write_recovery_ms_max, count_if(unwritable_ms < {flap_ms}) AS write_flaps
    FROM (
        SELECT grain, p.from_ms, broker_name, CASE WHEN kind = 'absent' THEN s.to_ms - s.from_ms END AS away_ms,
            CASE WHEN kind = 'unwritable' THEN s.to_ms - s.from_ms END AS unwritable_ms
        FROM spell s JOIN period p ON began AND ended AND s.to_ms BETWEEN p.from_ms AND p.last_ms
    )
    GROUP BY grain, from_ms, broker_name
),
events AS (
    SELECT grain, from_ms, broker_name, max(cluster) AS cluster,
        count_if(type = 'broker_registered') AS registrations, count_if(type = 'broker_expired') AS expiries,
        count_if(type = 'broker_closed') AS closes, count_if(type = 'broker_unregistered') AS unregistrations,
        count_if(type = 'broker_reaped') AS reaps
    FROM event JOIN period ON ms BETWEEN from_ms AND last_ms
    WHERE type IN ('broker_registered', 'broker_expired', 'broker_closed', 'broker_unregistered', 'broker_reaped')
    GROUP BY grain, from_ms, broker_name
)
SELECT grain, timestamp_millis(from_ms) AS period_start, coalesce(member.cluster, events.cluster, '') AS cluster,
    broker_name, coalesce(observed_ms, 0) AS observed_ms, coalesce(present_ms, 0) AS present_ms,
    coalesce(writable_ms, 0) AS writable_ms,
    coalesce(present_ms, 0) / nullif(observed_ms, 0) AS availability,
    coalesce(writable_ms, 0) / nullif(observed_ms, 0) AS write_availability,
    coalesce(outages, 0) AS outages, coalesce(recoveries, 0) AS recoveries, recovery_ms_mean, recovery_ms_max,
    coalesce(flaps, 0) AS flaps, coalesce(unwritable_spells, 0) AS unwritable_spells,
    coalesce(write_recoveries, 0) AS write_recoveries, write_recovery_ms_mean, write_recovery_ms_max,
    coalesce(write_flaps, 0) AS write_flaps, coalesce(registrations, 0) AS registrations,
    coalesce(expiries, 0) AS expiries, coalesce(closes, 0) AS closes,
    coalesce(unregistrations, 0) AS unregistrations, coalesce(reaps, 0) AS reaps
FROM lasting
FULL JOIN events USING (grain, from_ms, broker_name)
LEFT JOIN begun USING (grain, from_ms, broker_name)
LEFT JOIN returned USING (grain, from_ms, broker_name)
LEFT JOIN member USING (grain, from_ms, broker_name)
WHERE observed_ms > 0 OR registrations IS NOT NULL
