"""Writes the numbers of results/scale.json into SCALE.md, whose other text is written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.servers import marked

Found = Mapping[str, Any]


def write(folder: Path) -> None:
    """Write the results of a folder into its SCALE.md."""
    found = json.loads((folder / "results" / "scale.json").read_text())
    marked.put(folder / "SCALE.md", "scale", render(found))


def render(found: Found) -> str:
    sizes = sorted((name for name in found if name.startswith("size-")), key=lambda name: int(found[name]["brokers"]))
    parts = []
    if "redis" in found:
        parts.append("### What one Redis carries\n\n" + _about(found["redis"]) + _one_redis(found["redis"]))
    if sizes:
        parts.append(
            "### What grows\n\n" + _about(found[sizes[-1]]) + _sizes([found[name] for name in sizes])
        )  # fmt: skip
    if "shards" in found:
        parts.append("### Four namespaces over three shards\n\n" + _about(found["shards"]) + _shards(found["shards"]))
    if "clients" in found:
        parts.append("### Very many clients\n\n" + _about(found["clients"]) + _clients(found["clients"]))
    return "\n".join(parts)


def _about(found: Found) -> str:
    about = found["about"]
    return (
        f"{about['date']}, commit {about['commit']}, {about['machine']}, Redis {about['redis']}; load average at the "
        f"end {found['load'][0]}; took {found['took_s']:.0f} s.\n\n"
    )


def _one_redis(found: Found) -> str:
    rows = []
    for row in found["rows"]:
        cells = [str(row["front_ends"])]
        for what in ("heartbeat", "changed"):
            load = row[f"{what}_redis_load"]
            cells += [
                f"{row[f'{what}_rate']:,.0f}", f"{row[f'{what}_front_end_us']:.1f}", f"{row[f'{what}_redis_us']:.1f}",
                f"{load:.0%}", f"{row[f'{what}_rate'] / load:,.0f}",
            ]  # fmt: skip
        rows.append(cells)
    head = ["front ends"]
    for what in ("heartbeats/s", "changed topics/s"):
        head += [what, "CPU µs: front ends", "Redis", "Redis busy", "so a whole Redis carries"]
    straight = found["scripts_a_second"]
    return (
        _table(head, rows)
        + f"\nHeartbeat scripts straight into Redis, many in flight, with nothing else in the way: {straight:,.0f}/s.\n"
    )


def _sizes(found: Sequence[Found]) -> str:
    def cost(name: str) -> list[str]:
        cells = []
        for one in found:
            value = one[name]
            cells.append(
                f"{value['s']:.2f} s; CPU Redis {value['redis_cpu_s']:.2f}, front end {value['front_end_cpu_s']:.2f} s"
            )
        return cells

    def memory(name: str) -> list[str]:
        return [f"Redis {one[name]['redis_mb']:,.0f}, worker {one[name]['worker_mb']:,.0f} MB" for one in found]

    def answer(name: str) -> list[str]:
        return [
            f"{one[name]['bytes'] / 1e6:.2f} MB; {one[name]['first_ms']:.1f} ms, again {one[name]['ms']:.1f} ms"
            for one in found
        ]

    def latency(name: str) -> list[str]:
        return [f"p50 {one[name]['p50_ms']:.2f}, p99 {one[name]['p99_ms']:.2f} ms" for one in found]

    longest = [f"{one['rebuild']['longest_ms']:.1f} ms" if "longest_ms" in one["rebuild"] else "" for one in found]
    routes = [f"{one['rebuild']['lookup_s']:.2f} s" if "lookup_s" in one["rebuild"] else "" for one in found]
    rows = [
        ["all brokers register at once", *cost("fill")],
        ["1,000 small lookups/s meanwhile", *latency("small lookups while all register")],
        ["memory then", *memory("filled")],
        ["every broker beats once", *cost("heartbeat round")],
        ["1,000 small lookups/s meanwhile", *latency("small lookups while all beat")],
        ["a lookup of a small route, 64 × 1", *(f"{one['lookup']['cpu_us']:.1f} µs CPU" for one in found)],
        ["the route of TBW102", *answer("TBW102")],
        ["all clusters (106)", *answer("clusters (106)")],
        ["all topics (206)", *answer("topics (206)")],
        ["1,000 small lookups/s alone", *latency("small lookups alone")],
        ["while TBW102 is asked for ten times a second", *latency("small lookups beside TBW102")],
        ["while it changes twice a second, too", *latency("small lookups beside TBW102 that changes")],
        [f"{found[0]['leavers']} brokers leave", *cost("brokers leave")],
        ["and come again", *cost("and come again")],
        ["a front end starts again and reads everything", *cost("rebuild")],
        ["a client that asks for routes is without an answer for", *routes],
        ["Redis' longest script meanwhile", *longest],
        ["memory then", *memory("rebuilt")],
    ]
    return _table(["", *(one["what"] for one in found)], rows)


def _clients(found: Found) -> str:
    meanwhile = found["meanwhile"]
    rows = [
        ["memory of the front end for each of them", f"{found['bytes_each'] / 1e3:.2f} kB"],
        ["2,000 others ask: alone", f"{found['alone']:,.0f}/s"],
        ["beside them", f"{found['beside']:,.0f}/s"],
        [
            f"a change is told to {found['watches']:,} that watch its route",
            f"half of them after {found['told_p50_s']:.2f} s, all after {found['told_all_s']:.2f} s",
        ],
        ["1,000 small lookups/s meanwhile", f"p50 {meanwhile['p50_ms']:.2f}, p99 {meanwhile['p99_ms']:.2f} ms"],
    ]
    return _table([f"{found['connections']:,} connections, {found['workers']} workers on one core", ""], rows)


def _shards(found: Found) -> str:
    rows = []
    for what in ("one Redis", "three shards"):
        for load, values in found[what].items():
            busy = ", ".join(f"{share:.0%}" for share in values["redis_load"])
            rows.append([what, f"{values['rate']:,.0f} {load}/s", busy])
    together = _table(["4 namespaces together, one front end each", "in all", "Redis busy"], rows)
    rows = []
    for what in ("another shard", "the same shard"):
        values = found[f"loud on {what}"]
        rows.append(
            [
                what, f"{values['loud_topics_a_second']:,.0f} changed topics/s",
                *(f"p50 {values[w]['p50_ms']:.1f}, p99 {values[w]['p99_ms']:.1f} ms" for w in ("alone", "disturbed")),
            ]
        )  # fmt: skip
    apart = _table(["a loud namespace on", "its load", "a quiet one's changed registrations, alone", "meanwhile"], rows)
    return f"{together}\n{apart}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
