"""Every Redis key of the project: a function for each kind, with the namespace and the rest of the key as arguments.

docs/redis.md describes each kind. A *who* names a broker process: ``<cluster>|<broker address>`` (``Behaviour.who``).
An *incarnation* is the random name that a worker process takes when it starts.
"""

from __future__ import annotations

from collections.abc import Callable


def prefix(namespace: str) -> str:
    """The prefix of all keys of a namespace, ``P`` in docs/redis.md. Its hash tag puts them into one hash slot."""
    return f"mq:{{{namespace}}}:"


def auth_prefix(namespace: str) -> str:
    """The prefix of the keys of authentication, ``A`` in docs/redis.md; in the same slot.

    These keys hold secrets: Redis logins that may read ``mq:*`` must not read ``mqauth:*``.
    """
    return f"mqauth:{{{namespace}}}:"


def _one(name: str) -> Callable[[str], str]:
    return lambda namespace: prefix(namespace) + name


def _one_each(name: str) -> Callable[[str, str], str]:
    return lambda namespace, of: f"{prefix(namespace)}{name}:{of}"


def _auth(name: str) -> Callable[[str], str]:
    return lambda namespace: auth_prefix(namespace) + name


# the namespace, its streams, and their readers
meta = _one("meta")
changes = _one("changes")
heartbeats = _one("heartbeats")
lookups = _one("lookups")
counted = _one("counted")
readers = _one("readers")

# tables
clusters = _one("clusters")
cluster = _one_each("cluster")  # of a cluster's name
brokers = _one("brokers")
broker = _one_each("broker")  # of a brokerName
queues = _one_each("queues")  # of a brokerName
topic = _one_each("topic")  # of a topic
topics = _one("topics")
arriving = _one("arriving")
leaving = _one("leaving")
leaving_queues = _one_each("leaving")  # of a number in ``leaving``
wiping = _one("wiping")
mappings = _one("mappings")
mapping = _one_each("mapping")  # of a topic
filter_servers = _one_each("filter")  # of a who
kv_namespaces = _one("kv")
kv = _one_each("kv")  # of a KV namespace
kv_sizes = _one("kv_sizes")
config = _one("config")

# who is connected
live = _one_each("live")  # of a who
beat = _one_each("beat")  # of a who
deadlines = _one("deadlines")
disconnected = _one("disconnected")
channels = _one_each("channels")  # of a who
leases = _one("leases")
lease = _one_each("lease")  # of an incarnation
held = _one_each("held")  # of an incarnation
processes = _one("processes")
peers = _one("peers")

# who may do what
auth_policy = _auth("policy")
auth_users = _auth("users")
auth_used = _auth("used")
auth_refused = _auth("refused")
auth_refusals = _auth("refusals")
