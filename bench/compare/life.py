"""The steps of one server in one round: fill, look up, load, register, empty. Each step records its figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.load.plan import read_answers, read_wrong
from bench.load.shapes import TableShape, Variant
from bench.load.tool import LoadGenerator, LoadResult
from bench.servers.peers import MeasuredServer, OurServer
from bench.servers.rest import NoRest, wait_for_rest

# Java removes a broker after 120 s without a registration, and closes a connection after 120 s without a byte.
BEAT_EVERY_S = 40.0
# How often brokers register again that were answered with an error.
STORM_TRIES = 50
RETRY_S = 0.25
OPEN_CONNECTIONS = 64


@dataclass(frozen=True)
class Effort:
    """How long each step lasts; the defaults are those of ``--full``.

    ladder: rates for the plot of latency against load, measured every second round. stretch_s: length of S4.
    lag_s: length of the lag's probes. window_s, java_warm_least_s, warm_most_s: see Life.warm_up.
    """

    window_s: float = 10.0
    java_warm_least_s: float = 60.0
    warm_most_s: float = 120.0
    settle_s: float = 0.5
    measure_s: float = 4.0
    stretch_s: float = 10.0
    registrations_s: float = 3.0
    ladder: tuple[int, ...] = (1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 45_000, 60_000, 80_000, 110_000)
    ladder_s: float = 1.5
    lag_s: float = 15.0


def is_steady(rates: Sequence[float]) -> bool:
    """Whether the last three of these rates are within 3 %."""
    last = rates[-3:]
    return len(last) == 3 and max(last) <= 1.03 * min(last)


@dataclass
class Record:
    """The figures of one server with one shape in one round.

    wrong: the faults of a few wrong answers. took_s: from the start of the server to its end.
    """

    peer: str
    round: int
    shape: str = ""
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    took_s: float = 0.0

    def add(self, what: str, **values: Any) -> None:
        self.values.setdefault(what, {}).update(values)


class Life:
    """Measures one running server with one generator, whose brokers it keeps registered.

    checked: whether answers are checked (those of the echo server are no routes).
    """

    def __init__(
        self,
        server: MeasuredServer,
        generator: LoadGenerator,
        shape: TableShape,
        effort: Effort,
        record: Record,
        folder: Path,
        say: Callable[[str], None],
        checked: bool = True,
    ) -> None:
        self.server, self.generator, self.shape, self.effort = server, generator, shape, effort
        self.record, self.checked = record, checked
        self._say = say
        self._bodies, self._wrong = folder / "bodies", folder / "wrong"
        self._beat_at = time.monotonic()

    # filling

    def storm(self, what: str) -> None:
        """S7: let every broker register at once, until every route is right."""
        began = time.monotonic()
        cost = self.server.cost()
        result = self.register_all(Variant.BASE)
        first_s, refused, tries = result.registrations_s, self.refused(result), 1
        filled = self.server.cost()  # before the check, after which ours keeps every route encoded
        while tries < STORM_TRIES:
            checking = time.monotonic()
            wrong = [] if self.refused(result) else self.wrong_routes()
            if not wrong and not self.refused(result):
                break
            tries += 1
            time.sleep(RETRY_S)
            result = self.register_all(Variant.BASE, keep=True)
        else:
            self.record.wrong += [f"{what}: {result.registrations.remark}", *wrong[:3]]
        # If the first check finds every route right, they were right when the last broker was answered.
        until_right_s = first_s if tries == 1 else checking - began
        # CPU time of the check is left out if there was only one check
        cpu_s = (filled if tries == 1 else self.server.cost()).cpu_s - cost.cpu_s
        self.record.add(
            what, seconds=until_right_s, refused=refused, tries=tries, cpu_s=cpu_s,
            rss_mb=filled.rss_mb, pss_mb=filled.pss_mb,
        )  # fmt: skip
        self._say(f"{what}: {until_right_s:.2f} s, {tries} tries")

    def wrong_routes(self) -> list[str]:
        """Look up every route; the faults of wrong answers. Later answers are compared with these answers."""
        self.generator.once(self._bodies)
        return self._wrong_answers()

    def _wrong_answers(self) -> list[str]:
        if not self.checked:
            return []
        return [
            wrong
            for number, answer in enumerate(read_answers(self._bodies))
            if (wrong := self.shape.wrongs(number, answer))
        ]

    def leave(self) -> None:
        """Let every broker unregister, and wait until the last topic is gone and the server is at rest.

        Java 5.x removes topics after its answer, and our Redis frees memory after ours. This work belongs to this step,
        not to the storm after it.
        """
        began, before = time.monotonic(), self.server.cost()
        self.register_all(Variant.LEAVE)
        for _ in range(100):
            codes = self.generator.once().lookups.codes
            if "0" not in codes:
                break
            time.sleep(0.1)
        else:
            self.record.wrong.append(f"after all brokers left there are still routes: {codes}")
        try:
            rest_at = wait_for_rest(lambda: self.server.cost().cpu_s)
        except NoRest as error:
            self.record.wrong.append(f"all brokers left: {error}")
            return
        cpu_s = self.server.cost().cpu_s - before.cpu_s
        self.record.add("leave", seconds=rest_at - began, cpu_s=cpu_s)
        self._say(f"leave: at rest after {rest_at - began:.2f} s, {cpu_s:.2f} s of CPU")

    def register_all(self, variant: Variant, *, keep: bool = False) -> LoadResult:
        self._beat_at = time.monotonic()
        return self.generator.run(
            reg_parallel=len(self.shape.brokers), reg_each=1, reg_a=int(variant), reg_b=int(variant), reg_keep=int(keep)
        )

    @staticmethod
    def refused(result: LoadResult) -> int:
        registrations = result.registrations
        return registrations.asked - registrations.codes.get("0", 0)

    def beat(self) -> None:
        """Register all brokers again, unchanged, before the server would remove them."""
        if self.checked and time.monotonic() - self._beat_at > BEAT_EVERY_S:
            self.register_all(Variant.BASE, keep=True)

    # looking up

    def warm(self, seconds: float) -> None:
        """Load the server without measuring."""
        self.generator.run(connections=64, inflight=16, seconds=seconds)

    def warm_up(self) -> None:
        """Load the server until three rates in a row are within 3 %, a Java for at least a minute.

        Java compiles its hot code meanwhile, on the core that answers: its rate rises for a minute, but may be constant
        for some seconds in between.
        """
        rates: list[float] = []
        effort = self.effort
        least_s = effort.java_warm_least_s if self.record.peer.startswith("Java") else 0.0
        while (took_s := len(rates) * effort.window_s) < least_s or not (
            is_steady(rates) or took_s >= effort.warm_most_s
        ):
            self.beat()
            rates.append(self.generator.run(connections=64, inflight=16, seconds=self.effort.window_s).rate)
        seconds = len(rates) * self.effort.window_s
        self.record.add("warm-up", seconds=seconds, first=rates[0], last=rates[-1], steady=is_steady(rates))
        self._say(f"warm after {seconds:g} s: {rates[0]:,.0f}/s at first, {rates[-1]:,.0f}/s at last")

    def lookups(self, what: str, **options: Any) -> LoadResult:
        """Measure one load of lookups, with registrations if the options say so."""
        self.beat()
        defaults = {"warmup_s": self.effort.settle_s, "seconds": self.effort.measure_s, "sample": 16, "drain_s": 10}
        before = self.server.cost()
        result = self.generator.run(**{**defaults, **options}, wrong=self._wrong)
        after = self.server.cost()
        lookups, latency = result.lookups, result.lookups.latency
        wrong = self._judge(what, changing=bool(options.get("reg_rate")))
        self.record.add(
            what,
            rate=result.rate,
            p50_ms=latency.percentile_ms(50),
            p99_ms=latency.percentile_ms(99),
            p999_ms=latency.percentile_ms(99.9),
            max_ms=latency.max_ns / 1e6,
            cpu_us=(after.cpu_s - before.cpu_s) / max(1, lookups.answered) * 1e6,
            lost=lookups.lost,
            sampled=lookups.sampled,
            wrong=wrong,
            generator_load=result.generator_load,
            late_p99_ms=result.late.percentile_ms(99),
            rss_mb=after.rss_mb,
            pss_mb=after.pss_mb,
            series=result.series,
        )
        if options.get("reg_rate"):
            registered = result.registrations
            self.record.add(
                what, registrations=registered.answered, registration_p50_ms=registered.latency.percentile_ms(50),
                registration_max_ms=registered.latency.max_ns / 1e6,
            )  # fmt: skip
            if registered.codes.keys() - {"0"}:
                self.record.wrong.append(f"{what}: registrations {registered.codes} {registered.remark}")
        self._say(
            f"{what}: {result.rate:,.0f}/s, p50 {latency.percentile_ms(50):.2f}, p99 {latency.percentile_ms(99):.2f} ms"
        )
        return result

    def _judge(self, what: str, changing: bool) -> int:
        """Of the answers that differ from the expected bytes, the number whose content is wrong."""
        if not self.checked:
            return 0
        wrong = [
            text
            for number, answer in read_wrong(self._wrong)
            if (text := self.shape.wrongs(number, answer, may_change=changing))
        ]
        self.record.wrong += [f"{what}: {text}" for text in wrong[:3]]
        return len(wrong)

    def closed_loops(self, loads: Sequence[tuple[int, int]]) -> None:
        for connections, inflight in loads:
            self.lookups(f"{self.shape.name} {connections}x{inflight}", connections=connections, inflight=inflight)

    def open_loops(self, rate: int) -> None:
        """S4: lookups without registrations, with unchanged registrations, and with ten changed topics in each."""
        load = {"connections": OPEN_CONNECTIONS, "rate": rate, "seconds": self.effort.stretch_s}
        self.lookups("S4 none", **load)
        self.lookups("S4 unchanged", **load, reg_rate=1, reg_keep=1)
        self.lookups("S4 changed", **load, reg_rate=1, reg_a=int(Variant.TEN), reg_b=int(Variant.BASE))
        self.register_all(Variant.BASE)

    def ladder(self) -> None:
        """Measure latency at rising rates, until the server cannot keep up."""
        for rate in self.effort.ladder:
            result = self.lookups(
                f"load {rate}", connections=OPEN_CONNECTIONS, rate=rate, seconds=self.effort.ladder_s, warmup_s=0.5
            )
            if result.lookups.latency.percentile_ms(99) > 500 or result.lookups.lost:
                return

    # registering

    def registrations(self) -> None:
        """Let one broker register again and again: unchanged, with one changed topic, with all topics changed."""
        for what, first, second, keep in (
            ("unchanged", Variant.BASE, Variant.BASE, 1),
            ("1 changed", Variant.ONE, Variant.BASE, 0),
            ("all changed", Variant.ALL, Variant.BASE, 0),
        ):
            self.beat()
            before = self.server.cost()
            result = self.generator.run(
                reg_parallel=1, reg_a=int(first), reg_b=int(second), reg_keep=keep, drain_s=60,
                warmup_s=self.effort.settle_s, seconds=self.effort.registrations_s,
            )  # fmt: skip
            done = result.registrations
            rate = done.latency.count / result.seconds
            self.record.add(
                f"register {what}",
                rate=rate,
                p50_ms=done.latency.percentile_ms(50),
                p99_ms=done.latency.percentile_ms(99),
                cpu_ms=(self.server.cost().cpu_s - before.cpu_s) / max(1, done.answered) * 1e3,
            )
            if done.codes.keys() - {"0"}:
                self.record.wrong.append(f"register {what}: {done.codes} {done.remark}")
            self._say(f"register {what}: {rate:.1f}/s")
        self.register_all(Variant.BASE)

    # the rest

    def memory(self, what: str) -> None:
        cost = self.server.cost()
        self.record.add("memory", **{f"{what}_rss_mb": cost.rss_mb, f"{what}_pss_mb": cost.pss_mb})
        self.record.add("memory", **{f"{what}_parts_mb": self.server.pss_by_process()})

    def restart(self, server: OurServer) -> None:
        """Restart the front end: it must answer every route without a registration of any broker."""
        server.restart_front_end()
        self.generator.leave()  # the front end's end closed the brokers' connections
        began = time.monotonic()
        self.generator.once(self._bodies)
        asked_s = time.monotonic() - began
        wrong = self._wrong_answers()  # after the time was taken
        self.record.add("restart", start_s=server.start_s, all_routes_s=server.start_s + asked_s, wrong=len(wrong))
        self.record.wrong += [f"restart: {text}" for text in wrong[:3]]
        self._say(
            f"restart: first answer after {server.start_s:.2f} s, every route after {server.start_s + asked_s:.2f} s"
        )

    def spread(self, server: OurServer, counts: Sequence[int]) -> None:
        """For each number of connections, count how many each worker gets."""
        workers = server.workers()
        for count in counts:
            time.sleep(0.5)  # until the last run's connections are gone
            idle = {worker.pid: worker.num_fds() for worker in workers}
            self.generator.begin(connections=count, inflight=1, seconds=1.5)
            time.sleep(1.0)
            # the supervisor's helper processes take no connections
            taken = [more for worker in workers if (more := worker.num_fds() - idle[worker.pid]) > 0]
            self.generator.finish()
            worst = max(taken) * len(taken) / sum(taken) - 1 if len(taken) == server.workers_count else 1.0
            self.record.add(f"spread {count}", connections=taken, worst=worst)
            self._say(f"spread of {count:,} connections: {taken}")
