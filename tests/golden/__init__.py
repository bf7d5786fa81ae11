"""The recorded traffic of real NameServers; see README.md here.

``scenarios()`` names the recordings, ``load(name)`` gives one, ``exchanges(name)`` pairs requests with replies.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

ARCHIVE = Path(__file__).with_name("frames.jsonl.xz")

Row = dict[str, Any]


@cache
def _all() -> dict[str, tuple[Row, list[Row]]]:
    recordings: dict[str, tuple[Row, list[Row]]] = {}
    with lzma.open(ARCHIVE) as archive:
        for line in archive:
            row = msgspec.json.decode(line)
            name = f"{row['scenario']}--ns-{row['nameserver_version']}"
            if row.get("kind") == "header":
                recordings[name] = (row, [])
                continue
            if "frame_hex" in row:
                row["frame"] = bytes.fromhex(row.pop("frame_hex"))
            recordings[name][1].append(row)
    return recordings


def scenarios() -> list[str]:
    """Names of all recordings, sorted: ``<scenario>--ns-<version>``."""
    return sorted(_all())


def load(name: str) -> tuple[Row, list[Row]]:
    """One recording: its header, and its rows in wire order; ``frame`` holds the bytes, length word included."""
    return _all()[name]


def exchanges(name: str) -> Iterator[tuple[Row, Row | None]]:
    """Every request and oneway that a peer sent, with the reply or None."""
    rows = [row for row in load(name)[1] if "code" in row]
    replies: dict[tuple[Any, Any], list[Row]] = {}
    for row in rows:
        if row["direction"] == "response" and row["sender"] == "nameserver":
            replies.setdefault((row["conn"], row["opaque"]), []).append(row)
    for row in rows:
        if row["direction"] != "response" and row["sender"] == "peer":
            waiting = replies.get((row["conn"], row["opaque"]))
            yield row, waiting.pop(0) if waiting and row["direction"] == "request" else None
