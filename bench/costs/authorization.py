"""How much dearer the rules make a lookup, for each kind of sender: ``python -m bench authorization``.

As in ``hotpath`` there is no socket and no Redis. Each row is the least CPU time of many repetitions of one lookup
through a connection object, with authentication off and with enforced rules; rounds of both are in turn. The last row
is a lookup of a topic that a rule touches: each such lookup is decided anew.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from bench.costs.hotpath import TOPIC, connection, filled_view, nanoseconds
from bench.load.plan import OPAQUE
from bench.load.shapes import VERSION
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.signature import sign
from mqregistry.auth.users import ANONYMOUS, Effect, Rule, Secret, User
from mqregistry.protocol.command import Command, encode_command
from mqregistry.server.auth.authorization import Authorization
from mqregistry.server.auth.caller import Caller, Certificate
from mqregistry.server.auth.refusal import Refusal
from mqregistry.server.limits.failures import Failures
from mqregistry.server.net.connection import ServerConnection

MOST_PERCENT: Final = 10
ROUNDS: Final = 5
KEY: Final = "a-secret-key-of-some-length"
ADMIN: Final = User("root", roles=(Role.ADMIN,), secrets=(Secret("1", KEY),))
CLIENT: Final = User("client", roles=(Role.CLIENT,), secrets=(Secret("2", KEY),))
NETWORK: Final = User("network", roles=(Role.CLIENT,), networks=("127.0.0.0/8",))
CERTIFICATE: Final = User("certificate", roles=(Role.CLIENT,), certificates=("CN:bench",))


def _denied(user: str, topics: str) -> User:
    return User(user, rules=(Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, topics),))


class Sender(NamedTuple):
    """A kind of sender. users: those whom the rules have besides an administrator. kept: its answer is kept."""

    name: str
    users: tuple[User, ...]
    signs: bool = False
    kept: bool = True


SENDERS: Final = (
    Sender("unsigned", ()),
    Sender("unsigned, a rule denies other topics", (_denied(ANONYMOUS, "pay-*"),)),
    Sender("known by its network", (NETWORK,)),
    Sender("known by its certificate", (CERTIFICATE,)),
    Sender("signed", (CLIENT,), signs=True),
    Sender(
        "known by its network, a rule denies another user this topic", (NETWORK, _denied("other", TOPIC)), kept=False
    ),
)


class NoTables:
    """Tables without brokers: lookups ask for no cluster."""

    def cluster_of(self, broker_name: str) -> str | None: ...

    def clusters_with(self, topic: str, cluster: str) -> tuple[str, ...]:
        return ()


class Silent:
    """A tally that keeps nothing."""

    def allowed(self) -> None: ...

    def refused(self, refusal: Refusal, *, enforced: bool) -> None: ...

    def signed(self, caller: Caller) -> None: ...


def lookup(sender: Sender, *, enforced: bool) -> Callable[[], None]:
    """A lookup that was asked for before, by this sender."""
    ext = {"topic": TOPIC}
    if sender.signs:
        ext["AccessKey"] = CLIENT.name
        ext["Signature"] = sign(KEY, ext, b"")
    data = encode_command(Command(code=105, opaque=OPAQUE, version=VERSION, ext_fields=ext))
    one: ServerConnection = connection(filled_view())
    if CERTIFICATE in sender.users:
        one.certificate = Certificate(CERTIFICATE.certificates)
    policy = Policy(Mode.ENFORCE, 1, [ADMIN, *sender.users])
    if enforced:
        rules = Authorization(policy, Silent(), require_tls=True, tables=NoTables(), failures=Failures(str, str))
        one._context.authorize(rules)
    for _ in range(4):
        one.data_received(data)
    assert (one._context.counters.lookups_known > 0) == (sender.kept or not enforced), sender.name
    return lambda: one.data_received(data)


async def measured(repeat: int) -> list[tuple[Sender, float, float]]:
    """Nanoseconds with authentication off, and enforced; a coroutine, because connections need a running event loop."""
    rows = []
    for sender in SENDERS:
        off, enforced = lookup(sender, enforced=False), lookup(sender, enforced=True)
        times = [(nanoseconds(off, repeat), nanoseconds(enforced, repeat)) for _ in range(ROUNDS)]
        rows.append((sender, min(time for time, _ in times), min(time for _, time in times)))
    return rows


def main() -> int:
    """Print the table; 0 when no lookup whose answer is kept takes over 10 % longer than with authentication off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=100, help="the more, the less a busy machine shows")
    rows = asyncio.run(measured(parser.parse_args().repeat))
    print(f"| sender | off, ns | enforced, ns | more (bar {MOST_PERCENT} %) |\n| --- | --- | --- | --- |")
    held = True
    for sender, off, enforced in rows:
        percent = 100 * (enforced / off - 1)
        is_held = not sender.kept or percent <= MOST_PERCENT
        held = held and is_held
        verdict = "" if is_held else " **MISSED**"
        print(f"| {sender.name} | {off:,.0f} | {enforced:,.0f} | {percent:+.0f} %{verdict} |")
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
