"""``migrate``: shows the steps from Java NameServers to ours or back, how far each is, and which may be done now."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ...client.addresses import NameServerAddress, NameServerAddresses
from ...compare.differences import differences
from ...compare.judged_differences import Lasting, Sort, now_ms
from ...compare.migration import Done, Server, Step, StepState, steps
from ...compare.report import alike
from ...errors import ConfigError
from ...operators.words import counted
from .. import FAILED, output
from ..options import together
from ..tls import tls_options
from .connected import clients_here, clients_in
from .sides import NameServerSide, look_at
from .steps import Lists, commands, title
from .words import length_option, what_differs

_UNREACHABLE: Final = 3
_AGAIN_S: Final = 1.0


class MigrationSeen(msgspec.Struct, frozen=True):
    """The servers of both sides, and how far each step is. clusters: of all brokers. whats: address -> what it is."""

    old: list[Server]
    new: list[Server]
    clusters: list[str]
    whats: dict[str, str]
    steps: list[Done]

    def state(self, step: Step) -> StepState:
        """How far a step of the migration is."""
        return next(one.state for one in self.steps if one.step is step)


_common: Final = together(
    click.argument("java", metavar="JAVA"),
    click.argument("ours", metavar="OURS"),
    click.option("--before", type=click.Choice([one.value for one in Step]), metavar="STEP",
                 help="Say whether STEP may be done now: show its commands, end with 0; or say why not, end with 1."),
    click.option("--until-done", "until_done", type=click.Choice([one.value for one in Step]), metavar="STEP",
                 help="Wait until STEP is done: ends with 0 then, with 1 after --within."),
    length_option("--within", "within_ms", "How long --until-done waits.", "10m"),
    click.option("--peers", multiple=True, metavar="HOST:PORT=FILE",
                 help="The output of ss on the machine of this name server (see step clients-leave); repeatable."),
    click.option("--kv-namespace", "kv_namespaces", multiple=True, metavar="NAME",
                 help="Also compare this KV namespace, as no request lists them. Repeatable."),
    click.option("--timeout", "timeout_s", type=click.FloatRange(0.01, 60), default=5.0, show_default=True,
                 metavar="S", help="The longest wait for a connection, and for each answer."),
    click.option("--json", "as_json", is_flag=True, help="JSON instead of text."),
    tls_options,
)  # fmt: skip


@click.group()
def migrate() -> None:
    """Move from Java NameServers to this registry, or back: the safe order, its commands, and the progress.

    It only reads the name servers of both sides, and compares them: you run the commands. JAVA and OURS are address
    lists: 'host:port;host:port'. docs/migrating.md explains each step.
    """


@migrate.command()
@_common
def plan(**given: Any) -> None:
    """Show every step with its commands, and how far each step is."""
    raise SystemExit(asyncio.run(_run(given, back=False, is_plan=True)))


@migrate.command()
@_common
def check(**given: Any) -> None:
    """Show the progress of the migration, and the next step. Ends with 0 when all is done, else with 1."""
    raise SystemExit(asyncio.run(_run(given, back=False, is_plan=False)))


@migrate.command()
@_common
def back(**given: Any) -> None:
    """Show the steps of the way back, from OURS to JAVA, with their commands, and how far each step is."""
    raise SystemExit(asyncio.run(_run(given, back=True, is_plan=True)))


async def _run(given: dict[str, Any], *, back: bool, is_plan: bool) -> int:
    before, until_done = (Step(given[name]) if given[name] else None for name in ("before", "until_done"))
    if before and until_done:
        raise click.UsageError("--before and --until-done: give one of them")
    try:
        java, ours = [list(await NameServerAddresses(given[name]).refresh()) for name in ("java", "ours")]
    except (ConfigError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if both := set(map(str, java)) & set(map(str, ours)):
        raise click.UsageError(f"{', '.join(sorted(both))}: on both sides; JAVA and OURS are different name servers")
    look = _Look(java, ours, given, back=back)
    try:
        seen = await look.look()
        end_s = time.monotonic() + given["within_ms"] / 1000
        while until_done and seen.state(until_done) is not StepState.DONE and time.monotonic() < end_s:
            await asyncio.sleep(_AGAIN_S)
            seen = await look.look()
    finally:
        await look.close()
    if given["as_json"]:
        output.json_page({"back": back, **msgspec.to_builtins(seen)})
    elif before:
        return _may(seen, before, back=back)
    else:
        _show(seen, back=back, is_plan=is_plan)
    if before:
        return 0 if _is_allowed(seen, before) else FAILED
    if until_done:
        return 0 if seen.state(until_done) is StepState.DONE else FAILED
    if all(one.error for one in (*seen.old, *seen.new)):
        return _UNREACHABLE
    return 0 if is_plan or all(one.state is StepState.DONE for one in seen.steps) else FAILED


class _Look:
    """Reads the name servers of both sides, as ``compare`` does."""

    def __init__(
        self, java: list[NameServerAddress], ours: list[NameServerAddress], given: dict[str, Any], *, back: bool
    ) -> None:
        tls: ssl.SSLContext | None = given["tls"]
        self._java, self._ours = java, ours
        self._old, self._new = (ours, java) if back else (java, ours)
        self._kv_namespaces: Sequence[str] = given["kv_namespaces"]
        self._sides = {
            str(one): NameServerSide(one, timeout_s=given["timeout_s"], tls=tls) for one in (*java, *ours)
        }  # fmt: skip
        self._peers: dict[str, Path] = {}
        for text in given["peers"]:
            address, _, file = text.partition("=")
            if address not in self._sides or not file:
                raise click.UsageError(f"--peers {text}: expected HOST:PORT=FILE with one of {', '.join(self._sides)}")
            self._peers[address] = Path(file)

    async def look(self) -> MigrationSeen:
        """Read all name servers of both sides, and find how far each step is."""
        looked = await look_at(self._sides.values(), None, self._kv_namespaces)
        for wanted, side, is_java in ((self._java, "JAVA", True), (self._ours, "OURS", False)):
            for name in map(str, wanted):
                if name in looked.contents and looked.contents[name].is_java != is_java:
                    what = self._sides[name].what
                    raise click.UsageError(f"{side}: {name} is a {what}: give JAVA first, then OURS")
        brokers = {
            name: frozenset(addr for row in content.brokers.values() for addr in row.broker_addrs.values())
            for name, content in looked.contents.items()
        }
        every = frozenset[str]().union(*brokers.values())
        clusters = sorted({row.cluster for content in looked.contents.values() for row in content.brokers.values()})

        def server(address: NameServerAddress, *, is_old: bool) -> Server:
            name = str(address)
            return Server(
                name, looked.errors.get(name, "").removeprefix(f"{name}: "),
                brokers.get(name, frozenset()), self._clients(address, every) if is_old else None,
            )  # fmt: skip

        old = [server(one, is_old=True) for one in self._old]
        new = [server(one, is_old=False) for one in self._new]
        found = None
        if not looked.errors:
            lasting, moment = Lasting(0), now_ms()
            lasting.look(moment, differences(looked.contents), looked.contents)
            standing = [one for one in lasting.standing(moment) if one.sort in (Sort.COUNTED, Sort.YOUNG)]
            found = [what_differs(group) for group in alike(standing)]
        return MigrationSeen(
            old, new, clusters, {name: side.what for name, side in self._sides.items()}, steps(old, new, found)
        )  # fmt: skip

    def _clients(self, address: NameServerAddress, brokers: frozenset[str]) -> list[str] | None:
        file = self._peers.get(str(address))
        if file is not None:
            return clients_in(file, address.port, brokers)
        return clients_here(address.host, address.port, brokers)

    async def close(self) -> None:
        """Close all connections."""
        for side in self._sides.values():
            await side.close()


def _is_allowed(seen: MigrationSeen, step: Step) -> bool:
    return seen.state(step) in (StepState.NEXT, StepState.DONE) or (
        step is Step.CLIENTS_LEAVE and seen.state(step) is StepState.UNKNOWN
    )


def _may(seen: MigrationSeen, step: Step, *, back: bool) -> int:
    """Say whether a step may be done now, and show its commands only then."""
    if seen.state(step) is StepState.DONE:
        output.show(f"{step.value} is done already")
        return 0
    if _is_allowed(seen, step):
        output.show(f"{step.value} may be done now: {title(step, back=back)}")
        output.show(*(f"  {line}" for line in commands(step, _lists(seen), back=back)))
        return 0
    for one in seen.steps:
        if one.step is step and one.state is not StepState.WRONG:
            break
        if one.state is not StepState.DONE:
            output.show(f"not now: {one.step.value} is {_words(one)}")
            break
    return FAILED


def _words(one: Done) -> str:
    state = "not done" if one.state in (StepState.NEXT, StepState.LATER) else one.state.value
    return state + (f": {one.why}" if one.why else "")


def _lists(seen: MigrationSeen) -> Lists:
    return [one.address for one in seen.old], [one.address for one in seen.new], seen.clusters


def _show(seen: MigrationSeen, *, back: bool, is_plan: bool) -> None:
    for side, servers in (("from", seen.old), ("to", seen.new)):
        for server in servers:
            state = server.error or counted(len(server.brokers), "broker")
            output.show(f"{side:4}  {server.address}  {seen.whats[server.address]}, {state}")
            side = ""
    output.show("")
    wrong = any(one.state is StepState.WRONG for one in seen.steps)
    for number, one in enumerate(seen.steps, 1):
        output.show(f"{number}  {one.step.value:13}  {one.state.value:9}  {title(one.step, back=back)}")
        if one.why:
            output.show(f"   {one.why}")
        if one.state is StepState.WRONG:
            output.show(*(f"     {line}" for line in commands(Step.BROKERS_JOIN, _lists(seen), back=back)))
        elif (is_plan and one.state is not StepState.DONE) or (
            one.state in (StepState.NEXT, StepState.UNKNOWN) and not wrong
        ):
            output.show(*(f"     {line}" for line in commands(one.step, _lists(seen), back=back)))
