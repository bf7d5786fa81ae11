"""Writes RESULTS.md from those of results/full.json and results/selection.json that exist."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.compare.bars import BARS, LIMIT, OURS, Figures, shown
from bench.compare.beside import table as ratios
from bench.compare.growth import peer_name
from bench.compare.plot import svg
from bench.servers import marked

FOLDER = Path(__file__).parents[1]
"""Where RESULTS.md, the plots and results/ are."""
RUNS = {"full": "Everything", "selection": "The selection of `make bench`", "smoke": "A smoke test: no measurement"}

OTHERS = ("console",)
"""Suites that write a section of their own into RESULTS.md."""

HOW = """# Results

`python -m bench compare` writes this page, except the sections that name a different command.
`bench/compare/programme.py` and `bench/compare/life.py` have the steps. To measure again, use an idle machine with at
least two cores, a C compiler, Java and Maven:

| command | takes | measures |
| --- | --- | --- |
| `make bench` | 8 min | a selection: Java 5.5.0, ours, the echo server, one round |
| `make bench ARGS="compare --full"` | 60 min | everything below, five rounds; `--resume` continues an interrupted run |
| `make bench ARGS="console --write"` | 4 min | the console: its pages, the delay of a change, the cost for lookups |
| `make bench ARGS="scale"` | 6 min | what one Redis carries, the limits of size, a Redis Cluster: `SCALE.md` |
| `make bench ARGS="compare --render"` | 1 s | nothing: writes this file again from `bench/results/*.json` |

A bar (a limit) is OK or MISSED by the medians of the rounds, or by Java's best round where it says so. If the load
average is far above 1 to 2, which is the run itself, the machine was busy, and the ratios say little.
"""


def write(folder: Path, just_measured: str = "") -> int:
    """Write RESULTS.md and the plots; 1 when a bar of the run that was just measured was missed, else 0."""
    parts, status = [HOW], 0
    for name, title in RUNS.items():
        path = folder / "results" / f"{name}.json"
        if not path.exists() or (name == "smoke" and just_measured != "smoke"):
            continue
        data = json.loads(path.read_text())
        figures = Figures(data["records"])
        plot = svg(_ladders(figures), f"Latency against load, S2 ({data['about']['date']})")
        if plot:
            (folder / f"latency-{name}.svg").write_text(plot)
        text, missed = render(title, data["about"], figures, f"latency-{name}.svg" if plot else "")
        parts.append(text)
        if name == just_measured:
            status = 1 if missed else 0
            print(text)
    page = folder / "RESULTS.md"
    parts += [kept for name in OTHERS if (kept := marked.kept(page, name))]
    page.write_text("\n".join(parts))
    return status


def render(title: str, about: Mapping[str, Any], figures: Figures, plot: str) -> tuple[str, int]:
    """One run as Markdown, and how many of its bars were missed."""
    sections, missed = [f"## {title}\n", _about(about)], 0
    rows = []
    for bar in BARS:
        measured, held = bar.judge(figures)
        missed += held is False
        rows.append([bar.what, bar.bar, measured, {True: "OK", False: "**MISSED**", None: ""}[held]])
    sections.append("### What must hold\n\n" + _table(["what", "bar", "measured", ""], rows))
    sections.append(
        "### Side by side\n\nMedians of the rounds; the best round in brackets.\n\n" + _side_by_side(figures)
    )
    beside: Sequence[str] = about.get("beside", ())
    for checkout in beside:
        head = ["", "ours", checkout, "ours / it, medians", "of each round", "better is"]
        sections.append(f"### Ours beside {checkout}\n\n" + _table(head, ratios(figures, checkout)))
    if growth := _growth(figures):
        sections.append("### S8: growth (ours; CPU of all our processes)\n\n" + growth)
    if plot:
        sections.append(f"### Latency against load\n\n![latency against load]({plot})\n")
    peers = _peers(figures)
    wrong = [f"- {peer}: {text}" for peer in peers for text in dict.fromkeys(figures.wrong(peer))]
    if any(figures.wrong(peer) for peer in peers if not any(checkout in peer for checkout in beside)):
        missed += 1
    if wrong:
        sections.append("### Wrong answers and failures\n\n" + "\n".join(wrong[:40]) + "\n")
    return "\n".join(sections), missed


def _about(about: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    server, generator = about["cores"]["server"], about["cores"]["generator"]
    pinning = f"servers on core {_list(server)}, generator on core {_list(generator)}" if server else "nothing pinned"
    took = f"; took {about['took_min']} min" if "took_min" in about else ""
    return (
        f"{about['date']}, commit {about['commit']}, "
        f"{about.get('rounds', 0)} of {about['rounds_planned']} rounds, interleaved{took}."
        f"\n{about['machine']}; {pinning}; load average at the end {about['load_average']}."
        f"\nPython {about['python']} ({packages}), Redis {about['redis']}, {about['java']}.\n"
    )


def _list(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores))


def _peers(figures: Figures) -> list[str]:
    return list(dict.fromkeys(record["peer"] for record in figures.records))


def _side_by_side(figures: Figures) -> str:
    peers = _peers(figures)
    peers.sort(key=lambda peer: (not peer.startswith(OURS), peer == LIMIT, peer))

    def row(label: str, cell: Callable[[str], str]) -> list[str]:
        return [label, *map(cell, peers)]

    def one(what: str, name: str, unit: str = "", best: Callable[[Sequence[float]], float] | None = None) -> Any:
        def cell(peer: str) -> str:
            value = figures.maybe(peer, what, name)
            if value is None:
                return ""
            top = f" ({shown(best(figures.values(peer, what, name)))})" if best else ""
            return f"{shown(value)}{top}{unit}"

        return cell

    def load(what: str) -> Callable[[str], str]:
        def cell(peer: str) -> str:
            if figures.maybe(peer, what, "rate") is None:
                return ""
            rate = one(what, "rate", "/s", max)(peer)
            return f"{rate}, p99 {one(what, 'p99_ms')(peer)} ms, {one(what, 'cpu_us')(peer)} µs CPU"

        return cell

    def both(what: str, first: str, second: str, unit: str) -> Callable[[str], str]:
        def cell(peer: str) -> str:
            if figures.maybe(peer, what, first) is None:
                return ""
            return f"{one(what, first)(peer)}, {one(what, second)(peer)} {unit}"

        return cell

    def warm_up(peer: str) -> str:
        if figures.maybe(peer, "warm-up", "seconds") is None:
            return ""
        steady = "" if figures.median(peer, "warm-up", "steady") else ", not steady"
        seconds, first, last = (one("warm-up", name)(peer) for name in ("seconds", "first", "last"))
        return f"{seconds} s, {first}/s, {last}/s{steady}"

    rows = [
        row("S1, 16 × 1", load("S1 16x1")),
        row(
            "warmed up by 64 × 16 until three windows of 10 s are within 3 %, Java for a minute or more: seconds; "
            "rate in the first window, in the last",
            warm_up,
        ),
        row("S2, 64 × 1", load("S2 64x1")),
        row("S2, 64 × 16", load("S2 64x16")),
        row("S2, 2,000 × 1", load("S2 2000x1")),
        *(
            row(f"registrations of 10,000 topics, {what}", one(f"register {what}", "rate", "/s", max))
            for what in ("unchanged", "1 changed", "all changed")
        ),
        *(
            row(f"S4, 2,000 lookups/s, {label}: p50, p99", both(f"S4 {what}", "p50_ms", "p99_ms", "ms"))
            for what, label in (
                ("none", "no registrations"),
                ("unchanged", "one unchanged registration/s"),
                ("changed", "one with 10 changed/s"),
            )
        ),
        row("S5, memory (PSS) after the S2 fill", one("S7 fresh", "pss_mb", " MB")),
        row("S5, every route asked once", one("memory", "asked_pss_mb", " MB")),
        row("S5, after the lookups", one("memory", "loaded_pss_mb", " MB")),
        row("S6, first answer after start, empty", one("start", "seconds", " s", min)),
        row("S6, with S2 in Redis; every route answered", both("restart", "start_s", "all_routes_s", "s")),
        row("S7, fresh process", one("S7 fresh", "seconds", " s", min)),
        row("all leave, until the server is at rest", one("leave", "seconds", " s", min)),
        row("S7, warm process", one("S7 warm", "seconds", " s", min)),
        row("S7, fresh: registrations refused and repeated", one("S7 fresh", "refused")),
    ]
    # records without a server, such as those of the lag, have none of these figures
    columns = [0, *(number for number in range(1, len(peers) + 1) if any(line[number] for line in rows))]
    head = ["", *peers]
    return _table([head[n] for n in columns], [[line[n] for n in columns] for line in rows if any(line[1:])])


def _growth(figures: Figures) -> str:
    rows = []
    for record in figures.records:
        for values in record["values"].values():
            if "topic_bytes" in values and record["peer"] == peer_name(values["front_ends"]):
                rows.append(
                    [
                        f"{values['topics']:,}", str(values["brokers"]), str(values["front_ends"]),
                        f"{values['lookup_us']:.1f} µs", f"{values['heartbeat_ms']:.2f} ms",
                        f"{values['changed_topic_us']:.1f} µs", f"{values['topic_bytes']:,.0f} B",
                        f"{values['asked_topic_bytes']:,.0f} B",
                    ]
                )  # fmt: skip
    head = ["topics", "brokers", "front ends", "a lookup", "a heartbeat of 10,000 topics", "a changed topic",
            "memory of a topic", "and its kept answer"]  # fmt: skip
    return _table(head, rows) if rows else ""


def _ladders(figures: Figures) -> dict[str, list[tuple[float, float, float]]]:
    """For every server: rate, median and 99th percentile of each open loop, by rising rate."""
    lines: dict[str, list[tuple[float, float, float]]] = {}
    rates = sorted(
        {int(what.split()[1]) for record in figures.records for what in record["values"] if what.startswith("load ")}
    )
    for peer in _peers(figures):
        line = [
            (
                float(rate),
                figures.median(peer, f"load {rate}", "p50_ms"),
                figures.median(peer, f"load {rate}", "p99_ms"),
            )
            for rate in rates
            if figures.maybe(peer, f"load {rate}", "p99_ms") is not None
        ]
        if line:
            lines[peer] = line
    return lines


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
