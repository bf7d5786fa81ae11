"""What rules and signatures cost a whole front end under load; ``python -m bench authorization --load`` runs it.

A front end for each kind, with its Redis and the tables of S2, is up all the time. In each round every kind is loaded
for some seconds with each load, one kind after the other, and another one begins: so each pair of times that is
compared was measured within seconds, on the same machine. What counts is the median of the pairs' ratios; the quartiles
tell what it is worth.

What brokers send never changes, so that it can be signed beforehand. Their connections are new in each storm: each
signature is checked there. The kind "before" is another checkout, from before authentication. Redis does not rewrite
its AOF: it would in some storms and not in others.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from bench.compare.paired import Took, slower
from bench.load import plan
from bench.load.shapes import VERSION, ShapeBroker, TableShape, Variant
from bench.load.tool import LoadFailed, LoadGenerator, LoadResult, StreamCounts
from bench.servers.checkout import Checkout
from bench.servers.peers import OurServer
from bench.servers.processes import Processes
from bench.servers.rest import wait_for_rest
from mqregistry.auth import changes
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.signature import sign
from mqregistry.auth.users import Effect, Rule, Secret, User
from mqregistry.protocol.command import Command
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.store import Store

KEY: Final = "a-secret-key-of-some-length"
USERS: Final = (
    User("root", roles=(Role.ADMIN,), secrets=(Secret("1", KEY),)),
    User("client", roles=(Role.CLIENT,), secrets=(Secret("2", KEY),)),
    User(
        "broker",
        roles=(Role.BROKER,),
        rules=(
            Rule(Effect.ALLOW, (Right.REGISTER,), Kind.CLUSTER, "cluster-*"),
            Rule(Effect.ALLOW, (Right.REGISTER,), Kind.BROKER, "broker-*"),
        ),
        secrets=(Secret("3", KEY),),
        sources=("10.0.0.0/8", "127.0.0.0/8"),
    ),
)
BEFORE, OFF, PLAIN, SIGNED = "before", "off", "not signed", "signed"
MODES: Final = {OFF: Mode.OFF, PLAIN: Mode.OBSERVE, SIGNED: Mode.ENFORCE}
DECODED_TIMES: Final = 2
"""A lookup that is decoded this often is known by its bytes from then on."""
STEADY: Final = plan.COUNTER + 1
"""The counter of every data version: the generator, which looks for another one, changes nothing."""


class AtMost(NamedTuple):
    """How much slower one kind may be than another; most_percent None: it is only told."""

    load: str
    kind: str
    than: str
    most_percent: float | None


BARS: Final = tuple(
    AtMost(load, kind, than, most)
    for load, signed_most in (("first", None), ("lookups", 5.0), ("heartbeats", 10.0), ("storm", 10.0), ("again", None))
    for kind, than, most in ((PLAIN, BEFORE, 2.0 if signed_most else None), (PLAIN, OFF, None),
                             (SIGNED, PLAIN, signed_most))
)  # fmt: skip

LOADS: Final = {
    "first": "each topic is asked for twice after its brokers registered: these requests are decoded",
    "lookups": "64 clients, each with one lookup under way; topics that were asked for before, so few are decoded",
    "heartbeats": "a broker of 10,000 topics registers unchanged, one registration after the other",
    "storm": "32 new brokers of 10,000 topics register at once",
    "again": "the same 32 connect again and register unchanged, at once",
}


def write_frames(shape: TableShape, folder: Path, *, signed: bool) -> tuple[Path, Path]:
    """The generator's files: lookups, and registrations with the variants BASE and LEAVE."""

    def fields(ext: Mapping[str, str] | None, access_key: str, body: bytes = b"") -> dict[str, str]:
        given = dict(ext or {})
        if signed:
            given["AccessKey"] = access_key
            given["Signature"] = sign(KEY, given, body)
        return given

    def frame(command: Command, access_key: str, body: bytes = b"") -> Command:
        ext = fields(command.ext_fields, access_key, body)
        return Command(code=command.code, opaque=plan.OPAQUE, version=VERSION, ext_fields=ext, body=body)

    def variants(place: int, broker: ShapeBroker) -> list[Command | None]:
        base = shape.registration(broker, Variant.BASE)
        body = base.body.replace(b'"counter":%d' % plan.COUNTER, b'"counter":%d' % STEADY)
        base.ext_fields = {**(base.ext_fields or {}), "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}  # as Java does
        leave = shape.commands(place)[Variant.LEAVE]
        assert leave is not None
        return [frame(base, "broker", body), None, None, None, frame(leave, "broker")]

    lookups, registrations = (folder / f"{'signed' if signed else 'plain'}.{what}" for what in ("lookups", "brokers"))
    asked = [Command(code=105, ext_fields={"topic": topic}) for topic in shape.topics]
    plan.write_lookups(lookups, [plan.encode_command(frame(command, "client")) for command in asked])
    brokers = (variants(place, broker) for place, broker in enumerate(shape.brokers))
    plan.write_registrations(registrations, brokers, len(shape.brokers), len(Variant))
    return lookups, registrations


class LoadedKind:
    """One front end of a kind, and its generator; what each load took in each round."""

    def __init__(self, name: str, server: OurServer, generator: LoadGenerator, shape: TableShape) -> None:
        self.name, self.times = name, {load: list[Took]() for load in LOADS}
        self._server, self._generator, self._brokers = server, generator, len(shape.brokers)
        self._register_all(Variant.BASE)

    def put_rules(self) -> None:
        """Have these rules and this kind's mode in force."""
        mode = MODES[self.name]

        def change(policy: Policy) -> Policy:
            for user in USERS:
                policy = changes.add_user(policy, user)
            return changes.set_mode(policy, mode)

        async def run() -> None:
            async with Store(f"unix://{self._server.redis_socket}") as store:
                await PolicyStore(store).change(change)

        asyncio.run(run())

    def load(self, load: str, seconds: float) -> Took:
        """Load it once.

        Raises:
            LoadFailed: it refused something, or did not answer.
        """
        loads = {
            "first": self._first,
            "lookups": self._lookups,
            "heartbeats": self._heartbeats,
            "storm": self._storm,
            "again": self._again,
        }
        return loads[load](seconds)

    def _first(self, seconds: float) -> Took:
        """The first load of a round: the storms of the round before have forgotten who asked for what."""
        began, cpu_s = time.monotonic(), self._cpu_s()
        asked = sum(self._generator.once().lookups.answered for _ in range(DECODED_TIMES))
        return Took((time.monotonic() - began) / asked, (self._cpu_s() - cpu_s) / asked)

    def _lookups(self, seconds: float) -> Took:
        self._generator.once()
        began = self._cpu_s()
        result = self._generator.run(connections=64, inflight=1, warmup_s=0.3, seconds=seconds, drain_s=10)
        if result.lookups.codes.keys() != {"0"}:
            raise LoadFailed(f"{self.name}: lookups {result.lookups.codes} {result.lookups.remark}")
        return Took(1 / result.rate, (self._cpu_s() - began) / result.lookups.answered)

    def _heartbeats(self, seconds: float) -> Took:
        began = self._cpu_s()
        result = self._generator.run(reg_parallel=1, reg_keep=1, warmup_s=0.3, seconds=seconds, drain_s=30)
        done = self._taken(result)
        return Took(result.seconds / done.latency.count, (self._cpu_s() - began) / done.answered)

    def _storm(self, seconds: float) -> Took:
        self._register_all(Variant.LEAVE)
        wait_for_rest(self._cpu_s)  # the sweeper removes the topics in parts, behind the answer
        self._generator.leave()
        return self._register_all(Variant.BASE)

    def _again(self, seconds: float) -> Took:
        self._generator.leave()
        return self._register_all(Variant.BASE)

    def _register_all(self, variant: Variant) -> Took:
        began = self._cpu_s()
        result = self._generator.run(
            reg_parallel=self._brokers, reg_each=1, reg_a=int(variant), reg_b=int(variant), reg_keep=1
        )
        self._taken(result)
        return Took(result.registrations_s, self._cpu_s() - began)

    def _taken(self, result: LoadResult) -> StreamCounts:
        done = result.registrations
        if done.codes.keys() != {"0"}:
            raise LoadFailed(f"{self.name}: registrations {done.codes} {done.remark}")
        return done

    def _cpu_s(self) -> float:
        times = [process.cpu_times() for process in self._server.processes()]
        return float(sum(one.user + one.system for one in times))


def measure(
    shape: TableShape,
    rounds: int,
    seconds: float,
    before: Checkout | None,
    server_cores: Sequence[int],
    generator_cores: Sequence[int],
    say: Callable[[str], None],
    loads: Sequence[str] = tuple(LOADS),
) -> dict[str, dict[str, list[Took]]]:
    """Kind -> load -> what it took in each round.

    Args:
        loads: those that are measured; nothing is told of the others.

    Raises:
        LoadFailed: a front end refused something, or did not answer.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mq")))
        files = {signed: write_frames(shape, folder, signed=signed) for signed in (False, True)}
        processes = Processes(folder)
        stack.callback(processes.close)
        kinds = []
        for name in ([BEFORE] if before else []) + [*MODES]:
            checkout = before if name == BEFORE else None
            server = OurServer(1, 1, processes, server_cores, name, checkout=checkout)
            stack.callback(server.stop)
            generator = LoadGenerator(server.port, *files[name == SIGNED], generator_cores)
            kind = _begin(name, server, stack.enter_context(generator), shape)
            kinds.append(kind)
        for number in range(rounds):
            turn = number % len(kinds)
            for load in loads:
                for kind in (*kinds[turn:], *kinds[:turn]):
                    kind.times[load].append(kind.load(load, seconds))
            say(f"round {number + 1} of {rounds}")
        return {kind.name: kind.times for kind in kinds}


def _begin(name: str, server: OurServer, generator: LoadGenerator, shape: TableShape) -> LoadedKind:
    asyncio.run(_leave_the_aof(server))
    kind = LoadedKind(name, server, generator, shape)
    if name != BEFORE:
        kind.put_rules()
    for load in LOADS:  # not measured: what is done for the first time
        kind.load(load, 0.5)
    return kind


async def _leave_the_aof(server: OurServer) -> None:
    async with Store(f"unix://{server.redis_socket}") as store:
        await store.client.config_set("auto-aof-rewrite-percentage", 0)


def report(times: Mapping[str, Mapping[str, Sequence[Took]]]) -> tuple[list[str], bool]:
    """The lines of the table, and whether every bar of the measured loads held; without "before" some did not."""
    lines = [
        "| load | kind | than | slower by, median of the pairs (quartiles) | more CPU | bar | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    all_held = True
    for bar in BARS:
        if not times[PLAIN][bar.load]:
            continue
        most = "" if bar.most_percent is None else f"{bar.most_percent:.0f} %"
        if bar.than not in times:
            lines.append(f"| {bar.load} | {bar.kind} | {bar.than} | not measured (--before) | | {most} | |")
            all_held = all_held and bar.most_percent is None
            continue
        kind, than = times[bar.kind][bar.load], times[bar.than][bar.load]
        pairs = slower([one.time for one in kind], [one.time for one in than])
        cpu = slower([one.cpu for one in kind], [one.cpu for one in than])
        held = bar.most_percent is None or pairs.median <= bar.most_percent
        all_held = all_held and held
        verdict = "" if bar.most_percent is None else "OK" if held else "MISSED"
        lines.append(
            f"| {bar.load} | {bar.kind} | {bar.than} | {pairs.median:+.1f} % ({pairs.lower_quartile:+.1f} to "
            f"{pairs.upper_quartile:+.1f}) | {cpu.median:+.1f} % ({cpu.lower_quartile:+.1f} to "
            f"{cpu.upper_quartile:+.1f}) | {most} | {verdict} |"
        )
    return [*lines, "", *(f"- {load}: {what}" for load, what in LOADS.items() if times[PLAIN][load])], all_held
