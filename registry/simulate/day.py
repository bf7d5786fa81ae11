"""The values of a simulated day: its shape, and the brokers and operations of its plan."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

import msgspec

DAY_MS: Final = 24 * 3600 * 1000

# RocketMQ's own periods and timeouts, in real time.
_BEAT_MS: Final = 30_000
_TIMEOUT_MS: Final = 120_000
_TOUCH_MS: Final = 1_000
_ACTING_TIMEOUT_MS: Final = 10_000

_STARTS_WITHIN_MS: Final = 600
_START_LASTS_MS: Final = 200  # from the first process of a brokerName to its last

# With shorter times, name servers on a busy machine would drop brokers that the plan keeps.
LEAST_BEAT_MS: Final = 500
LEAST_TOUCH_MS: Final = 250
LEAST_TIMEOUT_MS: Final = 3_000


class DayShape(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a day. Times are those of the run, after scaling."""

    seed: int = 1  # of all random choices
    duration_ms: int = 60_000
    clusters: int = 2
    brokers: int = 8  # brokerNames; each has one to three processes
    topics: int = 60  # at the start; the plan adds, changes and deletes some
    clients: int = 20  # applications that look up topics, each at one name server
    servers: int = 1  # name servers; every broker registers at all of them
    beat_ms: int = LEAST_BEAT_MS  # between two registrations (103) of a broker
    touch_ms: int = LEAST_TOUCH_MS  # between two heartbeats (904, 322) of a process of an acting-master group
    timeout_ms: int = LEAST_TIMEOUT_MS  # heartbeatTimeoutMillis of brokers outside acting-master groups
    acting_timeout_ms: int = LEAST_TIMEOUT_MS  # heartbeatTimeoutMillis of brokers in acting-master groups
    incidents: float = 6.0  # approximate number for each brokerName, one after the other
    lookups_per_s: float = 50.0  # of all clients together
    goodbye: bool = True  # every broker unregisters at the end

    @property
    def started_ms(self) -> int:
        """When every broker has begun to start; lookups begin then."""
        return min(_STARTS_WITHIN_MS, self.duration_ms // 20) + _START_LASTS_MS

    @property
    def starts_within_ms(self) -> int:
        """The time within which the first process of each brokerName starts."""
        return self.started_ms - _START_LASTS_MS

    @classmethod
    def scaled(cls, scale: float, duration_ms: int, **given: int | float | bool) -> Self:
        """A day of ``duration_ms``, played ``scale`` times faster: 1440 is a day in a minute.

        Periods and timeouts are divided by it, down to the LEAST_ times; values in ``given`` are not scaled.
        """
        fields: dict[str, int | float | bool] = {
            "duration_ms": round(duration_ms / scale),
            "beat_ms": max(LEAST_BEAT_MS, round(_BEAT_MS / scale)),
            "touch_ms": max(LEAST_TOUCH_MS, round(_TOUCH_MS / scale)),
            "timeout_ms": max(LEAST_TIMEOUT_MS, round(_TIMEOUT_MS / scale)),
            "acting_timeout_ms": max(LEAST_TIMEOUT_MS, round(_ACTING_TIMEOUT_MS / scale)),
        }
        return cls(**{**fields, **given})  # type: ignore[arg-type]

    @classmethod
    def past(cls, duration_ms: int, **given: int | float | bool) -> Self:
        """The shape of a past day: with RocketMQ's own periods, and two name servers.

        Only acting-master groups are slower: they send heartbeats as rarely as registrations, because a heartbeat each
        second would fill the streams. Brokers that are registered at the end stay registered.
        """
        beat_ms, timeout_ms = int(given.get("beat_ms", _BEAT_MS)), int(given.get("timeout_ms", _TIMEOUT_MS))
        periods = {"beat_ms": beat_ms, "touch_ms": beat_ms, "timeout_ms": timeout_ms, "acting_timeout_ms": timeout_ms}
        fields = {"duration_ms": duration_ms, "servers": 2, "lookups_per_s": 0.5, "goodbye": False}
        return cls(**{**fields, **periods, **given})  # type: ignore[arg-type]


class OpKind(StrEnum):
    """What a broker, an administrator or a client does in an operation."""

    START = "start"  # connect to every name server, and register there
    BEAT = "beat"  # 103: register again, unchanged
    ASK = "ask"  # 322: compare data versions
    TOUCH = "touch"  # 904: a heartbeat
    REGISTER = "register"  # 103 with a table that changed
    CLOSE = "close"  # the process dies: all of its connections close
    SILENCE = "silence"  # the process hangs: it sends nothing, its connections stay open
    EXPIRE = "expire"  # name servers drop a process that is silent
    LEAVE = "leave"  # 104 at every name server
    UNLINK = "unlink"  # the connection to one name server breaks
    RELINK = "relink"  # the process connects and registers there again
    PUT_TOPIC = "put_topic"  # set a topic in the table that all processes of a brokerName share; REGISTER follows
    DROP_TOPIC = "drop_topic"  # remove it from that table; REGISTER follows
    DELETE_TOPIC = "delete_topic"  # 216: an administrator deletes a topic
    WIPE = "wipe"  # 205: an administrator takes the write permission of a brokerName
    ADD = "add"  # 327: an administrator gives the write permission back
    LOOKUP = "lookup"  # 105: a client looks up a topic


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One timed operation; ``kind`` decides which fields are set."""

    at_ms: int  # since the start of the run
    kind: OpKind
    broker: str = ""
    id: int | None = None  # the brokerId of one of its processes
    server: int | None = None  # number of a name server
    topic: str = ""
    queues: tuple[int, int, int] | None = None  # read queues, write queues, permission
    brokers: tuple[str, ...] = ()  # brokerNames with the topic that is deleted
    client: int | None = None  # number of a client


class Member(msgspec.Struct, frozen=True):
    """One broker process of the plan."""

    broker: str
    id: int
    cluster: str
    addr: str
    acting: bool  # it belongs to an acting-master group
    timeout_ms: int  # its heartbeatTimeoutMillis

    @property
    def who(self) -> str:
        """The key by which name servers tell processes apart: cluster and address."""
        return f"{self.cluster}|{self.addr}"


class SimulatedBroker(msgspec.Struct, frozen=True):
    """One brokerName: its processes, the master first, and its topics at the start."""

    name: str
    cluster: str
    kind: str  # single, pair (master and slave), acting (a group with enableSlaveActingMaster)
    calm: bool  # its master is never away
    members: tuple[Member, ...]
    topics: dict[str, tuple[int, int, int]]


class DayPlan(msgspec.Struct, frozen=True):
    """Everything that happens in a day, in order."""

    shape: DayShape
    brokers: tuple[SimulatedBroker, ...]
    always: tuple[str, ...]  # topics that have a route all the time
    never: tuple[str, ...]  # names that no topic has
    quiet: tuple[str, ...]  # topics that nobody looks up
    ops: tuple[Op, ...]

    def members(self) -> dict[tuple[str, int], Member]:
        """All processes by brokerName and id."""
        return {(member.broker, member.id): member for broker in self.brokers for member in broker.members}

    def heartbeats(self) -> int:
        """How many entries the heartbeat stream gets, at most."""
        heard = (OpKind.START, OpKind.REGISTER, OpKind.BEAT, OpKind.ASK, OpKind.TOUCH)
        return sum(op.kind in heard for op in self.ops) * self.shape.servers

    def json_lines(self) -> bytes:
        """The plan as text: the shape, then each broker, then each operation, one JSON object per line."""
        encode = msgspec.json.encode
        return b"".join(encode(each) + b"\n" for each in (self.shape, *self.brokers, *self.ops))
