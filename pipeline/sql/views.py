"""The views that SQL queries may use: a description of each, and the query that makes it.

Views with the name of a layer (``silver.queue_data``) have all namespaces and epochs. The others have one namespace and
no column for epochs: a value that still held at the end of an epoch ends then.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ..lake.gold_schema import FIGURES, GOLD, MOMENT
from ..lake.schema import BRONZE, LATER, OWNER, SILVER, SILVER_VALUES, TABLES

_UNREADABLE: Final = ("reason", "raw")

# figures_to: the end of the time with figures
EPOCHS: Final = pa.schema(
    [*((name, pa.string()) for name in OWNER), ("latest", pa.bool_()), ("begins", MOMENT), ("ends", MOMENT),
     ("seq", pa.int64()), ("figures_to", MOMENT)]
)  # fmt: skip

_PERIODIC: Final = [table for table, schema in GOLD.items() if "grain" in schema.names]
_GRAINS: Final = ("hour", "day")
YOUNG_MS: Final = 48 * 3_600_000

# What one row of each view is, in the order of the list for users.
ABOUT: Final = {
    "routes": "an address that a topic is routed to now",
    "routes_by_day": "the same at the end of each day of your time zone",
    **{f"{table}_by_{grain}": f"figures of {table} in one {grain} (UTC)" for table in _PERIODIC for grain in _GRAINS},
    "broker_by_minute": "for how long a broker was present and writable, in one minute of the last 48 hours",
    "heartbeat_by_minute": "how often a broker process was heard, in one minute of the last 48 hours",
    "lookups_by_minute": "how often a topic was looked up, in one minute of the last 48 hours",
    **{table: "figures of hours and days, with the column grain" for table in _PERIODIC},
    "front_end_heartbeat": "how a front end heard a broker process in one hour",
    "broker_state": "a stretch of time in which a broker was writable, read_only, absent or unknown",
    "alarm": "an alarm of the streams",
    "epochs": "one epoch of the registry's tables, and the part of it in the lake",
    "gaps": "a time with lost changes: the values of this time are not known",
    "clock_steps": "the first change after the clock of Redis was set back, with the times before and after",
    **{table: "a value, from the change that set it to the change that ended it" for table in SILVER},
    **{
        f"changes_of_{table}": f"a value of {table} that began or ended, with the number of the change"
        for table in SILVER
    },
    **{stream: f"an entry of the stream of {stream}" for stream in BRONZE},
    "quarantine": "an entry that cannot be read, and why",
}

# The views with the name of a layer.
LAYERED: Final = [table.replace("/", ".") for table in TABLES if "/" in table]


def raw_name(table: str) -> str:
    """The name under which a Delta table is registered."""
    return "delta_" + table.replace("/", "_")


def views(namespace: str, end_ms: int = YOUNG_MS) -> dict[str, str]:
    """Every view and its query, which reads only earlier views and the registered tables.

    Args:
        namespace: the views without a layer's name show this namespace.
        end_ms: the end of the namespace's past; the views by minute show the 48 hours before it.
    """
    ours = f"namespace = {_text(namespace)}"
    return {**_layers(), **_of_namespace(ours), **_minutes(ours, max(0, end_ms - YOUNG_MS)), **_changes(ours)}


def _layers() -> dict[str, str]:
    found = {}
    for name, (schema, _) in TABLES.items():
        layer, _, table = name.partition("/")
        raw = raw_name(name)
        if layer == "silver" and table in SILVER:
            # a run that was killed has later changes in some tables only: these do not count
            shown = [
                f"CASE WHEN t.to_seq <= e.seq THEN t.{column} END AS {column}" if column in LATER
                else f't."{column}"'
                for column in schema.names if column != "current"
            ]  # fmt: skip
            found[f"silver.{table}"] = (
                f"SELECT {', '.join(shown)} FROM {raw} t JOIN delta_epochs e USING (namespace, epoch) "
                "WHERE t.from_seq <= e.seq"
            )
            continue
        left_out = _UNREADABLE if table in BRONZE else ("day",) if layer == "gold" else ()
        kept = ", ".join(f'"{column}"' for column in schema.names if column not in left_out)
        found[f"{layer}.{table}"] = f"SELECT {kept} FROM {raw}" + (" WHERE reason IS NULL" * (table in BRONZE))
    return found


def _of_namespace(ours: str) -> dict[str, str]:
    def span(name: str) -> str:
        return ", ".join(f"make_timestamptz({end}_ms * 1000) AS {name}_{end}" for end in ("from", "to"))

    found = {
        "epochs": f"SELECT * EXCLUDE (namespace) FROM delta_epochs WHERE {ours} ORDER BY begins",
        "gaps": f"SELECT {span('gap')} FROM silver.gap WHERE {ours} AND stream = 'changes' ORDER BY gap_from",
        "clock_steps": f"SELECT seq, {span('set')} FROM silver.clock_step WHERE {ours} ORDER BY epoch, seq",
    }
    for table in SILVER:
        found[table] = (
            "SELECT t.* EXCLUDE (namespace, epoch) REPLACE ("
            "CASE WHEN t.valid_to IS NULL AND NOT e.latest THEN e.ends ELSE t.valid_to END AS valid_to, "
            "CASE WHEN t.valid_to IS NULL AND NOT e.latest THEN 'end_of_epoch' ELSE t.ended_by END AS ended_by) "
            f"FROM silver.{table} t JOIN delta_epochs e USING (namespace, epoch) WHERE t.{ours}"
        )
    for table in (*FIGURES, *BRONZE):
        layer = "gold" if table in FIGURES else "bronze"
        found[table] = f"SELECT * EXCLUDE (namespace, epoch) FROM {layer}.{table} WHERE {ours}"
    found["quarantine"] = " UNION ALL ".join(
        f"SELECT '{stream}' AS stream, id_ms, id_n, ms, reason, raw FROM {raw_name(f'bronze/{stream}')} "
        f"WHERE {ours} AND reason IS NOT NULL"
        for stream in BRONZE
    )
    for table in _PERIODIC:
        for grain in _GRAINS:
            found[f"{table}_by_{grain}"] = f"SELECT * EXCLUDE (grain) FROM {table} WHERE grain = '{grain}'"
    route = "q.topic, a.cluster, q.broker_name, a.broker_id, a.addr, q.read_queue_nums, q.write_queue_nums, q.perm"
    found["routes"] = (
        f"SELECT {route}, q.valid_from AS since FROM queue_data q JOIN broker_addr a USING (broker_name) "
        "WHERE q.valid_to IS NULL AND a.valid_to IS NULL"
    )
    found["routes_by_day"] = (
        f"SELECT CAST(d.day AS DATE) AS day, {route} FROM ("
        "SELECT day, least(day + INTERVAL 1 DAY, ends + INTERVAL 1 MICROSECOND) AS until FROM ("
        "SELECT unnest(generate_series(date_trunc('day', min(begins)), max(ends), INTERVAL 1 DAY)) AS day, "
        "max(ends) AS ends FROM epochs)) d "
        "JOIN queue_data q ON q.valid_from < d.until AND (q.valid_to IS NULL OR q.valid_to >= d.until) "
        "JOIN broker_addr a ON a.broker_name = q.broker_name "
        "AND a.valid_from < d.until AND (a.valid_to IS NULL OR a.valid_to >= d.until) "
        "WHERE NOT EXISTS (SELECT 1 FROM gaps g WHERE g.gap_from < d.until AND d.until <= g.gap_to)"
    )
    return found


def _minutes(ours: str, since_ms: int) -> dict[str, str]:
    """Figures per minute, from the same states and entries as those per hour: minutes add up to hours."""

    def lasting(*states: str) -> str:
        lasted = "epoch_ms(least(coalesce(valid_to, until), until)) - epoch_ms(greatest(valid_from, period_start))"
        return f"CAST(coalesce(sum({lasted}) FILTER (state IN {states}), 0) AS BIGINT)"

    def entries(stream: str) -> str:
        return f"""
            SELECT CAST(e AS JSON) AS e,
                time_bucket(INTERVAL 1 MINUTE, make_timestamptz(ms * 1000)) AS period_start
            FROM bronze.{stream} WHERE {ours} AND ms >= {since_ms}"""

    since = f"greatest(begins, make_timestamptz({since_ms} * 1000))"
    return {
        # a broker that left for good is observed to the end of that hour
        "broker_by_minute": f"""
            SELECT *, present_ms / observed_ms AS availability, writable_ms / observed_ms AS write_availability FROM (
                SELECT period_start, arg_max(cluster, valid_from) AS cluster, broker_name,
                    {lasting("writable", "read_only", "absent")} AS observed_ms,
                    {lasting("writable", "read_only")} AS present_ms,
                    {lasting("writable", "writable")} AS writable_ms
                FROM (
                    SELECT epoch, period_start, least(period_start + INTERVAL 1 MINUTE, figures_to) AS until FROM (
                        SELECT epoch, figures_to, unnest(generate_series(
                            time_bucket(INTERVAL 1 MINUTE, {since}), figures_to - INTERVAL 1 MILLISECOND,
                            INTERVAL 1 MINUTE)) AS period_start
                        FROM delta_epochs WHERE {ours}))
                JOIN gold.broker_state USING (epoch)
                WHERE {ours} AND valid_from < until AND coalesce(valid_to, until) > period_start AND (
                    state <> 'absent' OR valid_to IS NOT NULL
                    OR period_start < time_bucket(INTERVAL 1 HOUR, valid_from) + INTERVAL 1 HOUR)
                GROUP BY period_start, broker_name)
            WHERE observed_ms > 0""",
        "heartbeat_by_minute": f"""
            SELECT period_start, e->>'who' AS who, max(e->>'broker_name') AS broker_name,
                count(*) FILTER (e->>'kind' <> 'refused') AS beats, count(*) FILTER (e->>'kind' = 'refused') AS refused,
                count(DISTINCT e->>'front_end') AS front_ends
            FROM ({entries("heartbeats")}) GROUP BY period_start, who""",
        "lookups_by_minute": f"""
            SELECT period_start, each.key AS topic, coalesce(sum(each.value) FILTER (kind = 'found'), 0) AS lookups,
                coalesce(sum(each.value) FILTER (kind = 'missing'), 0) AS missing
            FROM (
                SELECT period_start, kind, unnest(map_entries(CAST(e->kind AS MAP(VARCHAR, BIGINT)))) AS each
                FROM ({entries("lookups")}), unnest(['found', 'missing']) AS kinds(kind))
            GROUP BY period_start, topic""",
    }


def _changes(ours: str) -> dict[str, str]:
    """The values that began and ended in silver. A program that copies them goes on after the last ``seq`` it has."""

    def half(table: str, change: str, seq: str, at: str, by: str, ended_by: str) -> str:
        columns = ", ".join(f'"{name}"' for name in SILVER_VALUES[table])
        return (
            f"SELECT epoch, {seq} AS seq, {at} AS moment, '{change}' AS change, {columns}, {by} AS caused_by, "
            f"{ended_by} AS ended_by FROM silver.{table} WHERE {ours} AND {seq} IS NOT NULL"
        )

    return {
        f"changes_of_{table}": f"{half(table, 'begins', 'from_seq', 'valid_from', 'from_by', 'NULL')} UNION ALL "
        f"{half(table, 'ends', 'to_seq', 'valid_to', 'to_by', 'ended_by')}"
        for table in SILVER
    }


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
