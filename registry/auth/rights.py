"""Rights, the resources that they are on, and roles, which are named sets of rights.

A request needs one right, on each resource that it names. docs/security.md has the table for users.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class Right(enum.StrEnum):
    """What a request does. The comments name the request codes."""

    ROUTE = "route"  # 105
    LIST = "list"  # 106, 206, 224, 304, 305, 311-313
    KV_READ = "kv.read"  # 101, 219
    KV_WRITE = "kv.write"  # 100, 102
    CONFIG_READ = "config.read"  # 319
    CONFIG_WRITE = "config.write"  # 318
    REGISTER = "register"  # 103, 104, 322, 904; 217 of a broker for its own brokerName
    PERM = "perm"  # 205, 327
    TOPIC_WRITE = "topic.write"  # 216, 217


READING: Final = frozenset((Right.ROUTE, Right.LIST, Right.KV_READ, Right.CONFIG_READ))
"""Rights that everybody has, also anonymous senders, unless a rule denies them."""

WRITING: Final = frozenset(Right) - READING
"""Rights that nobody has without a rule or a role."""


class Kind(enum.StrEnum):
    """The kinds of resources on which rights can be granted."""

    TOPIC = "topic"
    CLUSTER = "cluster"
    BROKER = "broker"  # a brokerName
    KV = "kv"  # a namespace of the KV configuration


KINDS: Final[dict[Right, frozenset[Kind]]] = {
    Right.ROUTE: frozenset((Kind.TOPIC,)),
    Right.LIST: frozenset((Kind.CLUSTER,)),
    Right.KV_READ: frozenset((Kind.KV,)),
    Right.KV_WRITE: frozenset((Kind.KV,)),
    Right.CONFIG_READ: frozenset(),
    Right.CONFIG_WRITE: frozenset(),
    Right.REGISTER: frozenset((Kind.CLUSTER, Kind.BROKER, Kind.TOPIC)),
    Right.PERM: frozenset((Kind.BROKER, Kind.CLUSTER)),
    Right.TOPIC_WRITE: frozenset((Kind.TOPIC, Kind.CLUSTER)),
}
"""The kinds of resources that a right can be on. A request for everything (all clusters, all topics) names no resource.

Rules on the topics that a broker may register are optional: a broker without an allowing rule may register every topic.
"""


class Resource(NamedTuple):
    """One thing that a request reads or changes."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Need(NamedTuple):
    """A right on resources; without resources it is on everything."""

    right: Right
    resources: tuple[Resource, ...] = ()


class Role(enum.StrEnum):
    """A named set of rights. The last admin cannot be removed."""

    CLIENT = "client"
    BROKER = "broker"
    OPERATOR = "operator"
    ADMIN = "admin"


ROLES: Final[dict[Role, frozenset[Right]]] = {
    Role.CLIENT: READING,
    Role.BROKER: READING,
    Role.OPERATOR: READING | {Right.KV_WRITE, Right.PERM, Right.TOPIC_WRITE},
    Role.ADMIN: frozenset(Right),
}
"""The rights of each role, on every resource. The role broker has no right to register: rules give this right, on the
broker's own cluster and brokerName."""
