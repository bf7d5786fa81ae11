"""Doctor's findings about a registry: its Redis, its namespace, and the processes that work on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...config.settings import DEFAULT, Settings
from ...errors import NoNamespace, RegistryError, StoreError
from ...events.by import host_name
from ...events.changes import SCHEMA_MAJOR, SCHEMA_MINOR
from ...operators.words import counted, duration
from ...store.connection.examination import examine, read_schema_minor
from ...store.connection.fitness import Finding
from ...store.operator_reads import count_unsettled, wrong_entries
from ...store.processes import Fleet, SweeperNow, read_fleet
from ...store.store import Store, open_existing

# A sweeper writes its status every second.
_SWEPT_MS: Final = 3_000


async def registry_findings(settings: Settings) -> tuple[list[Finding], set[int]]:
    """All findings about the registry that the settings name, and the process ids of its workers on this machine."""
    findings: list[Finding] = []
    async with Store(settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms) as store:
        try:
            findings += await examine(store)
        except RegistryError as error:
            advice = "is Redis up, and is this its address and login?"
            return [*findings, Finding("Redis", "wrong", str(error), advice=advice)], set()
    try:
        async with open_existing(settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms) as store:
            findings += await _namespace(store, settings)
            findings.append(await _topic_sets(store))
            fleet = await read_fleet(store)
    except NoNamespace:
        text = f"there is no namespace {settings.namespace!r} yet: the first front end makes it"
        return [*findings, Finding("namespace", "ok", text)], set()
    except StoreError as error:
        return [*findings, Finding("namespace", "wrong", str(error))], set()
    findings += fleet_findings(fleet)
    return findings, processes_here(fleet)


async def _namespace(store: Store, settings: Settings) -> list[Finding]:
    minor = await read_schema_minor(store)
    note = f"; written by a newer release than this one ({SCHEMA_MAJOR}.{SCHEMA_MINOR})" if minor > SCHEMA_MINOR else ""
    found = [Finding("schema", "ok", f"{SCHEMA_MAJOR}.{minor}{note}")]
    if store.compat != settings.compat:
        found.append(Finding(
            "compat", "warning" if settings.source("compat") == DEFAULT else "wrong",
            f"namespace {settings.namespace!r} was made for compat {store.compat}", f"{settings.compat}, as set here",
            f"start front ends and sweepers with --compat {store.compat}, or use another --namespace",
        ))  # fmt: skip
    return found


async def _topic_sets(store: Store) -> Finding:
    """Whether ``topics`` and ``topic:<topic>`` agree with the queue data; routes do not depend on these sets."""
    unsettled, wrong = await count_unsettled(store), await wrong_entries(store)
    if not wrong or unsettled:
        note = f"; {counted(unsettled, 'broker name')} being entered or taken out" if unsettled else ""
        return Finding("topic sets", "ok", f"as the queue data says{note}")
    return Finding(
        "topic sets", "warning", f"{len(wrong)} wrong: {'; '.join(wrong[:3])}", "as the queue data says",
        "a sweeper checks and corrects some topics each second: run a sweeper, then doctor again",
    )  # fmt: skip


def fleet_findings(fleet: Fleet) -> Iterator[Finding]:
    """Whether front ends and sweepers run, and of which releases they are."""
    there = [one for one in fleet.front_ends if one.state != "gone"]
    for one in fleet.front_ends:
        if one.state == "gone":
            yield Finding(
                "front ends", "warning", f"{one.name} on {one.host} is gone: it was killed or cut off",
                advice="start it again; without it, this warning ends within an hour",
            )  # fmt: skip
        elif one.state != "ready":
            yield Finding("front ends", "warning", f"{one.name} on {one.host} is {one.state}", "ready",
                          "its log says why")  # fmt: skip
    text = ", ".join(f"{one.name} (release {one.release})" for one in there)
    yield Finding("front ends", "ok", text or "none runs on this namespace")
    told = _sweepers(fleet)
    for sweeper in told:
        if sweeper.gone and not sweeper.facts.front_end:
            yield Finding(
                "sweepers", "warning", f"{_where(sweeper, fleet)}, is gone: it was killed or cut off",
                advice="start it again; without it, this warning ends within an hour",
            )  # fmt: skip
    sweepers = [sweeper.facts for sweeper in told if not sweeper.gone]
    if sweepers:
        yield Finding("sweepers", "ok", ", ".join(_where(sweeper, fleet) for sweeper in told if not sweeper.gone))
    elif there:
        yield Finding(
            "sweepers", "wrong", "none sweeps: brokers that fall silent stay in every route", "one at least",
            "'mqregistry sweep' is one; front ends have one unless they were started with --no-sweep",
        )  # fmt: skip
    releases = sorted({one.release for one in there} | {one.release for one in sweepers})
    if len(releases) > 1:
        yield Finding(
            "releases", "warning", f"{' and '.join(releases)} work side by side", "one release, except in an upgrade",
            "finish the upgrade (section Upgrading of docs/operating.md)",
        )  # fmt: skip


def _sweepers(fleet: Fleet) -> list[SweeperNow]:
    """All sweepers, without silent ones that a newer sweeper at the same place has replaced."""
    newest_ms: dict[str, int] = {}
    for one in fleet.sweepers:
        newest_ms[one.place] = max(one.facts.started_ms, newest_ms.get(one.place, 0))
    return [
        one for one in fleet.sweepers
        if one.facts.started_ms == newest_ms[one.place] or fleet.now_ms - one.last_sweep_ms <= _SWEPT_MS
    ]  # fmt: skip


def _where(one: SweeperNow, fleet: Fleet) -> str:
    silent_ms = fleet.now_ms - one.last_sweep_ms
    return one.place + (f", which last swept {duration(silent_ms)} ago" if silent_ms > _SWEPT_MS else "")


def processes_here(fleet: Fleet) -> set[int]:
    """The process ids of all workers of front ends on this machine."""
    here = host_name()
    workers = (worker for one in fleet.front_ends if one.host == here for worker in one.workers)
    return {worker.facts.pid for worker in workers if not worker.gone}
