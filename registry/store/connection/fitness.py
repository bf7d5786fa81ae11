"""Judges whether a Redis can keep route tables: each finding says what was checked, what was found, and what to do.

Front ends and sweepers check :func:`server_findings` when they start. The other findings are for ``mqregistry doctor``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from .url import is_open_to_others, parse_url, without_password

OLDEST_REDIS: Final = (6, 2)
# The first release with the fix of CVE-2025-49844 in each release line. _NEVER: this line never gets the fix.
_NEVER: Final = 1 << 30
_MENDED_REDIS: Final = {
    (6, 2): 20, (7, 0): _NEVER, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2,
}  # fmt: skip
_MENDED_VALKEY: Final = {(7, 2): 11, (8, 0): 6, (8, 1): 4}
# The same as in the alert RedisNearlyFull of deploy/monitoring.
_NEARLY_FULL: Final = 0.85
# No script of ours takes longer than some tens of milliseconds, with 10,000 topics.
_SLOW_SCRIPT_US: Final = 20_000
_SLOW_ANSWER_MS: Final = 10.0
_CLOCK_MS: Final = 1_000

State = Literal["ok", "warning", "wrong"]
Info = Mapping[str, Any]
"""The answer of Redis to INFO, all requested sections together, as redis-py gives it."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was examined."""

    check: str  # what was looked at
    state: State  # wrong: the registry does not work, or loses data; warning: it works, with a risk
    found: str  # the present value
    expected: str = ""  # the right value
    advice: str = ""  # what to do

    def __str__(self) -> str:
        return f"{self.found}{self.expected and f': {self.expected}'}{self.advice and f'; {self.advice}'}"


def _measured(check: str, found: str, *, fits: bool, expected: str, advice: str) -> Finding:
    """A finding with a measured value: ok if it fits, else a warning."""
    return Finding(check, "ok", found) if fits else Finding(check, "warning", found, expected, advice)


def server_findings(info: Info, url: str) -> Iterator[Finding]:
    """The conditions for the start of a front end (``wrong``: it does not start), and its warnings.

    ``info``: the sections server, memory and persistence.
    """
    where = without_password(url)
    version = str(info.get("redis_version", "0"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    name = str(info.get("server_name", "Redis")).capitalize()
    told = f"{name} {info['valkey_version']}, as Redis {version}" if "valkey_version" in info else f"Redis {version}"
    if numbers < OLDEST_REDIS:
        yield Finding("version", "wrong", f"Redis {version} at {where} is too old", "6.2 or later is needed")
    else:
        yield _mended(info, version, f"{told} at {where}", url)
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if int(info.get("maxmemory", 0)) > 0 and policy != "noeviction":
        yield Finding(
            "eviction", "wrong",
            f"Redis has maxmemory-policy {policy}: it may drop route tables when memory is short",
            advice="set it to noeviction (CONFIG SET maxmemory-policy noeviction)",
        )  # fmt: skip
    else:
        no_limit = "" if int(info.get("maxmemory", 0)) else ", and no maxmemory: nothing is evicted"
        yield Finding("eviction", "ok", f"maxmemory-policy {policy}{no_limit}")
    if is_open_to_others(url):
        yield Finding(
            "password", "warning",
            f"Redis at {where} is used without a password, and is not on this machine: anybody who reaches it can "
            "change every route",
            advice="set up users (deploy/users.acl), or keep its network to yourself",
        )  # fmt: skip
    if int(info.get("aof_enabled", 0)):
        yield Finding("persistence", "ok", "an append-only file is written")
    else:
        yield Finding(
            "persistence", "warning",
            "Redis does not write an append-only file: after a Redis restart routes return with the brokers' next "
            "heartbeats, and KV configuration only if a front end still has it",
            advice="set appendonly yes",
        )  # fmt: skip


def _mended(info: Info, version: str, told: str, url: str) -> Finding:
    """Whether the server has the fix of CVE-2025-49844. Without the fix, a script can run programs as Redis' user."""
    is_valkey = "valkey_version" in info
    numbers = tuple(int(part) for part in str(info.get("valkey_version", version)).split(".")[:3] if part.isdigit())
    mended = _MENDED_VALKEY if is_valkey else _MENDED_REDIS
    least = mended.get((numbers[0], numbers[1]), 0) if len(numbers) == 3 else 0
    if not least or numbers[2] >= least or url.startswith("unix:"):  # only our own scripts run on a private Redis
        return Finding("version", "ok", told)
    return Finding(
        "version", "warning", told, f"{_first(numbers, least)} or later, which mends CVE-2025-49844",
        "update it: until then anybody who may run a script there may run any program as its user",
    )  # fmt: skip


def _first(numbers: tuple[int, ...], least: int) -> str:
    return "7.2.11" if least == _NEVER else f"{numbers[0]}.{numbers[1]}.{least}"


def state_findings(info: Info, url: str) -> Iterator[Finding]:
    """Findings about role, cluster, persistence, memory and scripts.

    ``info``: the sections server, memory, persistence, replication, cluster and commandstats.
    """
    if info.get("role") == "slave":
        yield Finding(
            "role", "wrong", "this server is a replica", "the master, which alone takes writes",
            "name the master; with Sentinel redis+sentinel://HOST,HOST/MASTER-NAME finds it",
        )  # fmt: skip
    else:
        replicas = int(info.get("connected_slaves", 0))
        yield Finding("role", "ok", f"master, with {replicas} replica(s)")
    if int(info.get("cluster_enabled", 0)) and parse_url(url).form != "cluster":
        yield Finding(
            "cluster", "wrong", "this server is a node of a Redis Cluster, and the URL names this node alone",
            "a URL that finds the node which holds the namespace", "use redis+cluster://HOST:PORT,HOST:PORT",
        )  # fmt: skip
    if "err" in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status")):
        yield Finding(
            "persistence", "wrong", "Redis could not save its data the last time",
            advice="look into its log: is its disk full, or not writable?",
        )  # fmt: skip
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    text = f"{used >> 20} MiB of {f'{limit >> 20} MiB' if limit else 'no limit'} are used"
    yield _measured(
        "memory", text, fits=not limit or used <= _NEARLY_FULL * limit,
        expected=f"less than {_NEARLY_FULL:.0%}: a full Redis refuses registrations",
        advice="raise maxmemory, or lower changesMaxMib, heartbeatsMaxEntries and lookupsMaxMib",
    )  # fmt: skip
    yield from _script_times(info)


def _script_times(info: Info) -> Iterator[Finding]:
    """The mean time of all scripts, including those of other programs, since Redis started."""
    calls = info.get("cmdstat_evalsha")
    if not isinstance(calls, Mapping) or not int(calls.get("calls", 0)):
        yield Finding("script times", "ok", "no script has run on this Redis yet")
        return
    mean_us = float(calls["usec_per_call"])
    text = f"{int(calls['calls'])} runs, {mean_us / 1000:.2f} ms each on average"
    yield _measured(
        "script times", text, fits=mean_us <= _SLOW_SCRIPT_US, expected=f"less than {_SLOW_SCRIPT_US // 1000} ms",
        advice="look for what else uses this machine or this Redis (LATENCY DOCTOR, SLOWLOG GET)",
    )  # fmt: skip


def round_trip_findings(round_trips_ms: list[float], ahead_ms: float) -> Iterator[Finding]:
    """How fast Redis answers small requests, and how far its clock is ahead of this machine's."""
    best_ms = min(round_trips_ms)
    text = f"{best_ms:.2f} ms, the slowest of {len(round_trips_ms)} {max(round_trips_ms):.2f} ms"
    yield _measured(
        "round trip", text, fits=best_ms <= _SLOW_ANSWER_MS,
        expected=f"less than {_SLOW_ANSWER_MS:g} ms: each registration takes some of them",
        advice="put front ends near their Redis",
    )  # fmt: skip
    text = f"Redis is {abs(ahead_ms) / 1000:.2f} s {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    yield _measured(
        "clock", text, fits=abs(ahead_ms) <= _CLOCK_MS,
        expected="less than a second: deadlines and events have the time of Redis, logs have ours",
        advice="let NTP (chrony, systemd-timesyncd) set both clocks",
    )  # fmt: skip


def rights_findings(missing: list[str], not_tried: list[str]) -> Iterator[Finding]:
    """Whether the login may do what a front end does."""
    if missing:
        yield Finding(
            "rights", "wrong", f"this login may not use {', '.join(missing)}", "every right of a front end",
            "give it those of the user mqregistry in deploy/users.acl",
        )  # fmt: skip
    else:
        but = f"; not tried, as there is no such namespace yet: {', '.join(not_tried)}" if not_tried else ""
        yield Finding("rights", "ok", f"this login may do all that a front end does{but}")
