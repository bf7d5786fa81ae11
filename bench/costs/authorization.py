"""What deciding on requests costs a worker: ``python -m bench authorization``.

As in ``hotpath``: no sockets, no Redis, CPU time, each the least of many repetitions. Lookups go through a connection
object in each mode, signed and not. Of a registration of 10,000 topics the decision is timed by itself, beside the
digest, which every registration needs.

With ``--load`` it measures whole front ends instead, over the wire, and judges the bars
(:mod:`bench.costs.signed_load`); ``--before ../before`` names a checkout from before authentication.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.costs import signed_load
from bench.costs.hotpath import TOPIC, connection, filled_view, nanoseconds
from bench.load.plan import OPAQUE
from bench.load.shapes import S2, VERSION, Variant, clusters
from bench.servers import machine
from bench.servers.checkout import NoCheckout, checkouts
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.signature import sign
from mqregistry.auth.users import ANONYMOUS, Effect, Rule, Secret, User
from mqregistry.protocol.command import Command, encode_command
from mqregistry.protocol.registration import digest_of
from mqregistry.server.auth.authorization import Authorization
from mqregistry.server.auth.caller import Caller, Certificate
from mqregistry.server.auth.refusal import Refusal
from mqregistry.server.net.connection import ServerConnection

KEY = "a-secret-key-of-some-length"
ADMIN = User("root", roles=(Role.ADMIN,), secrets=(Secret("1", KEY),))
CLIENT = User("client", roles=(Role.CLIENT,), secrets=(Secret("2", KEY),))
BROKER = User(
    "broker",
    roles=(Role.BROKER,),
    rules=(
        Rule(Effect.ALLOW, (Right.REGISTER,), Kind.CLUSTER, "cluster-00"),
        Rule(Effect.ALLOW, (Right.REGISTER,), Kind.BROKER, "broker-00-*"),
    ),
    secrets=(Secret("3", KEY),),
    sources=("10.0.0.0/8", "127.0.0.0/8"),
)
NETWORK = User("network", roles=(Role.CLIENT,), networks=("127.0.0.0/8",))
CERTIFICATE = User("certificate", roles=(Role.CLIENT,), certificates=("CN:bench",))
UNRELATED = User(ANONYMOUS, rules=(Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, "pay-*"),))
TINY = clusters("tiny", "40 topics", 2, 2, 20)
Steps = list[tuple[str, float]]


class Silent:
    """A tally that keeps nothing."""

    def allowed(self) -> None: ...

    def refused(self, refusal: Refusal, *, enforced: bool) -> None: ...

    def signed(self, caller: Caller) -> None: ...


def authorization(mode: Mode, *more: User) -> Authorization:
    return Authorization(Policy(mode, 1, [ADMIN, CLIENT, BROKER, *more]), Silent(), require_tls=True)


def signed(ext: dict[str, str], access_key: str, body: bytes = b"") -> dict[str, str]:
    fields = {**ext, "AccessKey": access_key}
    return fields | {"Signature": sign(KEY, fields, body)}


def lookup_steps(repeat: int) -> Steps:
    """The whole of a lookup, in nanoseconds."""

    def frame(ext: dict[str, str]) -> bytes:
        return encode_command(Command(code=105, opaque=OPAQUE, version=VERSION, ext_fields=ext))

    plain = frame({"topic": TOPIC})
    senders: dict[str, tuple[bytes, tuple[User, ...]]] = {
        "not signed": (plain, ()), "signed": (frame(signed({"topic": TOPIC}, "client")), ()),
        "known by its network": (plain, (NETWORK,)), "known by its certificate": (plain, (CERTIFICATE,)),
        "not signed, a rule on other topics": (plain, (UNRELATED,)),
    }  # fmt: skip
    steps = []
    for knows, how in ((True, "known by its bytes"), (False, "decoded")):
        for kind, (data, users) in senders.items():
            for mode in Mode:
                one = connection(filled_view())
                if CERTIFICATE in users:
                    one.certificate = Certificate(CERTIFICATE.certificates)
                if not knows:
                    one._connections.known.learn = lambda frame, command: None  # type: ignore[method-assign]
                one._context.authorize(None if mode is Mode.OFF else authorization(mode, *users))
                for _ in range(4):
                    one.data_received(data)
                assert (one._context.counters.lookups_known > 0) == knows

                def ask(one: ServerConnection = one, data: bytes = data) -> None:
                    one.data_received(data)

                steps.append((f"{how}, {kind}, {mode}", nanoseconds(ask, repeat)))
    return steps


async def registration_steps(repeat: int) -> Steps:
    """The decision on a registration of 10,000 topics, in nanoseconds."""
    plain = S2.registration(S2.brokers[0], Variant.BASE)
    plain.ext_fields = {**(plain.ext_fields or {}), "brokerAddr": "127.0.0.1:10911"}
    by_broker = Command(code=103, ext_fields=signed(plain.ext_fields, "broker", plain.body), body=plain.body)
    small = Command(code=904, ext_fields=signed(plain.ext_fields, "broker"))
    one = connection(filled_view())
    enforce, observe = authorization(Mode.ENFORCE), authorization(Mode.OBSERVE)

    def decide(by: Authorization, command: Command) -> None:
        assert at_once(by.of_write(command, one)) is None

    assert await enforce.of_write(by_broker, one) is None  # the first time it is verified, in a thread
    steps: dict[str, Callable[[], object]] = {
        "the digest, which every registration needs": lambda: digest_of(plain),
        "not signed, observe": lambda: decide(observe, plain),
        "signed, the same as before, enforce (with its digest)": lambda: decide(enforce, by_broker),
        "once a minute: the signature": lambda: sign(KEY, by_broker.ext_fields or {}, by_broker.body),
        "a heartbeat of 904, signed, enforce": lambda: decide(enforce, small),
    }
    return [(name, nanoseconds(step, max(5, repeat // 5), number=5)) for name, step in steps.items()]


def at_once(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


async def measured(repeat: int) -> tuple[Steps, Steps]:
    """Both tables; a coroutine, because connections need a running event loop."""
    return lookup_steps(repeat), await registration_steps(repeat)


def load(options: argparse.Namespace) -> int:
    """Measure whole front ends; 1: a bar was missed."""
    try:
        before = checkouts([options.before])[0] if options.before else None
    except NoCheckout as error:
        raise SystemExit(str(error)) from None
    server_cores, generator_cores = machine.cores(None, None)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    about = machine.about(server_cores, generator_cores)
    say(f"{about['commit']}, {about['machine']}, load average {about['load_average']}")
    shape = TINY if options.small else S2
    times = signed_load.measure(
        shape, options.rounds, options.seconds, before, server_cores, generator_cores, say, options.loads
    )  # fmt: skip
    lines, all_held = signed_load.report(times)
    print("\n".join(lines))
    return 0 if all_held else 1


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=100, help="the more, the less a busy machine shows")
    parser.add_argument("--load", action="store_true", help="whole front ends under load, and the bars")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="a checkout that is measured as well")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one load of one front end in one round")
    loads = list(signed_load.LOADS)
    parser.add_argument("--loads", nargs="+", choices=loads, default=loads, metavar="LOAD", help=", ".join(loads))
    parser.add_argument("--small", action="store_true", help="tables of 40 topics: whether it runs")
    options = parser.parse_args()
    if options.load:
        return load(options)
    repeat = options.repeat
    lookups, registrations = asyncio.run(measured(repeat))
    print("| a lookup | ns |\n| --- | --- |")
    for name, ns in lookups:
        print(f"| {name} | {ns:,.0f} |")
    print("\n| the decision on a registration of 10,000 topics | µs |\n| --- | --- |")
    for name, ns in registrations:
        print(f"| {name} | {ns / 1e3:,.1f} |")
    return 0


if __name__ == "__main__":
    main()
