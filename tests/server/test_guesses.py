"""Wrong signatures are looked at more slowly; what is refused, and what floods, costs others nothing."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.refused import MANY_NAMES
from mqregistry.config.settings import Settings
from mqregistry.errors import RateExceeded
from mqregistry.protocol.command import Command
from mqregistry.server.auth.authorization import Authorization
from mqregistry.server.auth.tally import MADE_UP, MADE_UP_OF_ADDRESS, Tally
from mqregistry.server.limits.failures import OF_ADDRESS_BURST, OF_USER_BURST, Failures
from mqregistry.server.limits.loop_time import AT_ONCE_S, PART, LoopTime
from mqregistry.server.limits.rates import Rates
from mqregistry.server.requests.decoding_turns import DecodingTurns

from .auth_bed import ADMIN, user
from .test_authorization import NoTables, Noted, sender, signed

SECOND = 1_000_000_000


class Clock:
    def __init__(self):
        self.now_ns = SECOND

    def __call__(self):
        return self.now_ns


def test_an_address_that_guesses_waits_and_nobody_elsewhere_is_locked_out():
    clock = Clock()
    failures = Failures(str, str, clock)
    noted = Noted()
    decides = Authorization(
        Policy(Mode.ENFORCE, 7, [ADMIN, user("alice")]), noted, require_tls=False, tables=NoTables(), failures=failures
    )

    def read(source, key=None):
        refusal = decides.of_read(Command(code=106, ext_fields=signed("alice", key=key)), sender(source))
        return "" if refusal is None else refusal.kind.reason

    tried = [read("10.0.0.1", f"guess-{number}") for number in range(40_000)]
    assert tried.count("wrong_signature") == OF_ADDRESS_BURST
    assert tried.count("too_many_failures") == 40_000 - OF_ADDRESS_BURST
    assert read("10.0.0.1") == "too_many_failures", "not even the right one: or each could be tried"
    assert read("10.0.0.2") == ""
    clock.now_ns += 2 * SECOND
    assert read("10.0.0.1") == "", "it may try again"
    # from 1,500 addresses, twice each: the second try of each counts as one of that user's
    tried = [read(f"10.1.{number >> 8}.{number & 255}", "guess") for number in range(1500) for _ in range(2)]
    assert tried.count("wrong_signature") <= 1500 + OF_USER_BURST
    assert read("10.0.0.3") == ""


def test_a_balancer_that_stands_for_many_has_no_account_of_its_own():
    clock = Clock()
    failures = Failures(str, lambda host: "", clock)
    for _ in range(OF_ADDRESS_BURST + 5):
        failures.failed("10.0.0.1", "alice")
    assert failures.too_many("10.0.0.1", "bob") == ""


def test_what_is_refused_takes_no_token_of_all():
    """Strangers of 100 addresses, 60,000 refusals: the admin's writes go on."""
    rates = Rates(Settings(limit_admin_writes="enforce", unlimited_addresses="", rate_burst_seconds=1), Clock())
    for number in range(60_000):
        with contextlib.suppress(RateExceeded):
            rates.check_refused(216, f"10.0.0.{number % 100}")
    for _ in range(12):
        rates.check_request(216, "10.9.9.9")


def test_an_address_has_half_of_the_places():
    rates = Rates(Settings(unlimited_addresses="10.9.0.0/16"))
    assert sum(rates.begun("10.0.0.1", 100) for _ in range(100)) == 50
    assert rates.begun("10.0.0.2", 100)
    assert all(rates.begun("10.9.9.9", 100) for _ in range(100))
    rates.ended("10.0.0.1", 50)
    assert rates.begun("10.0.0.1", 100)
    rates.ended("10.0.0.1")
    rates.ended("10.0.0.2")
    assert not rates._waiting


class Waiter:
    def __init__(self, host, seen, loop_time, clock):
        self.host, self.seen, self.time, self.clock = host, seen, loop_time, clock

    def go_on(self):
        self.seen.append(self)
        slice_ = self.time.begin(self.host)
        self.clock.now_ns += SECOND // 100
        slice_.end()


def test_an_address_has_a_part_of_the_loops_time_and_its_connections_take_turns():
    clock, later = Clock(), []
    times = LoopTime(
        lambda host: "" if host == "free" else host, lambda after_s, call: later.append((after_s, call)), clock
    )
    assert times.begin("free") is None
    slice_ = times.begin("a")
    assert not slice_.is_over()
    clock.now_ns += int(AT_ONCE_S * SECOND) + 1
    assert slice_.is_over()
    assert times.begin("a").is_over()
    assert not times.begin("b").is_over(), "others are served"
    seen = []
    waiters = [Waiter("a", seen, times, clock) for _ in range(3)]
    for one in waiters:
        times.wait(one)
    assert (len(later), len(times)) == (1, 3)
    while later:
        after_s, call = later.pop()
        clock.now_ns += int(after_s * SECOND) + 1
        call()
    assert seen == waiters
    assert len(times) == 0
    since_ns = clock.now_ns
    for _ in range(100):
        slice_ = times.begin("a")
        while slice_.is_over():
            clock.now_ns += SECOND // 1000
            slice_ = times.begin("a")
        clock.now_ns += SECOND // 100
        slice_.end()
    assert clock.now_ns - since_ns > 0.8 * PART * SECOND, "a second of work takes four"


async def test_decoding_registrations_counts_as_time_of_their_address():
    clock = Clock()
    times = LoopTime(lambda host: "" if host == "free" else host, lambda after_s, call: None, clock)
    turns, worked = DecodingTurns(), []

    def slices():
        for _ in range(3):
            yield

    turns.worked = lambda host, spent_ns: (worked.append(spent_ns), times.worked(host, int(AT_ONCE_S * SECOND)))
    for host in ("a", "free"):
        await turns.work(host, slices())
    assert len(worked) == 8
    assert all(spent_ns > 0 for spent_ns in worked)
    assert times.begin("a").is_over()
    assert not times.begin("b").is_over()


def test_made_up_names_are_one_row_and_those_that_are_known_keep_theirs():
    known = {"known"}
    tally = Tally(SimpleNamespace(), SimpleNamespace(), "fe", is_known=lambda kind: kind.resources[0][7:] in known)

    def refuse(name, source):
        decides = Authorization(
            Policy(Mode.ENFORCE, 7, [ADMIN]), tally, require_tls=False, tables=NoTables(), failures=Failures(str, str)
        )
        asyncio.run(decides.of_write(Command(code=205, ext_fields={"brokerName": name}), sender(source)))

    for number in range(650):
        refuse(f"made-up-{number}", f"10.0.0.{number % 2}")
    refuse("known", "10.0.0.1")
    refuse("honest-newcomer", "10.9.9.9")
    kinds = {kind.resources: count.times for kind, count in tally._untold.items()}
    assert kinds["broker:known",] == kinds["broker:honest-newcomer",] == 1
    assert kinds[()] == 650 - 2 * MADE_UP_OF_ADDRESS
    assert len(kinds) == 2 * MADE_UP_OF_ADDRESS + 3
    assert {kind.reason for kind in tally._untold} == {"no_rule", MANY_NAMES}
    for number in range(200):
        refuse(f"other-{number}", f"10.1.0.{number}")
    assert len(tally._untold) <= MADE_UP + 3
