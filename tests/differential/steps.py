"""Random operations, as values: what is drawn here names brokers, topics, ... by number, and `run.py` sends it.

Every draw is one number below a bound, 0 being the plainest choice, so that Hypothesis and the runner's own
shrinking can both make a sequence plainer by making numbers smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Choose = Callable[[int], int]
"""A number from 0 to bound - 1."""

# What broker processes there are: cluster, brokerName, id, address. Two clusters share brokerName 0.
PROCESSES = (
    (0, 0, 0, 0),
    (0, 0, 1, 1),
    (0, 1, 0, 2),
    (1, 0, 2, 3),
    (1, 2, 0, 4),
    (0, 1, 1, 5),
)
CLUSTERS, NAMES, ADDRS, TOPICS, KV_NAMESPACES, KEYS = 2, 3, 6, 6, 2, 3
ZONES = ("z0", "Zü", "")
VERSIONS = (479, 317, 373, 400, 401, 412, 413, 513)
UNKNOWN_CODES = (9999, 1, 10, 34, 226, 903, 1000, -1, 0, 30000)


class Step(NamedTuple):
    """One operation: its kind and what tells it from others of that kind."""

    kind: str
    args: dict[str, Any]

    def __str__(self) -> str:
        args = " ".join(f"{key}={value!r}" for key, value in self.args.items() if value is not None)
        return f"{self.kind} {args}"


class Draw:
    """Choices with names."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def of(self, values: Sequence[Any]) -> Any:
        return values[self.choose(len(values))]

    def weighted(self, *pairs: tuple[Any, int]) -> Any:
        """The first value is the plainest."""
        number = self.choose(sum(weight for _, weight in pairs))
        for value, weight in pairs:
            number -= weight
            if number < 0:
                return value
        raise AssertionError("no such choice")

    def rarely(self, one_in: int) -> bool:
        return self.choose(one_in) == one_in - 1


def draw_step(choose: Choose) -> Step:
    """One step; the choice 0 is a request that changes nothing."""
    draw = Draw(choose)
    kind = draw.weighted(*((kind, weight) for kind, (weight, _) in KINDS.items()))
    args = KINDS[kind][1](draw)
    return Step(kind, args)


def _envelope(draw: Draw) -> dict[str, Any]:
    """How a request is written, whatever it asks."""
    return {"binary": draw.rarely(5) or None}


def _process(draw: Draw) -> int:
    return draw.weighted((0, 5), (1, 4), (2, 3), (3, 3), (4, 2), (5, 2))


def _name(draw: Draw) -> int | str | None:
    return draw.weighted((0, 6), (1, 4), (2, 3), (NAMES, 1), (None, 1))


def _cluster(draw: Draw) -> int | None:
    return draw.weighted((0, 5), (1, 3), (CLUSTERS, 1), (None, 1))


def _topic(draw: Draw) -> int | str | None:
    number = draw.choose(TOPICS + 2)
    return number if number < TOPICS + 1 else draw.of((None, ""))


def _resend(draw: Draw) -> dict[str, Any]:
    return {"process": _process(draw), "oneway": draw.rarely(10) or None}


def _register(draw: Draw) -> dict[str, Any]:
    """A registration; what is None is as the process always says, or as it said last."""
    changed_identity = draw.rarely(4)
    return {
        "process": _process(draw),
        **_envelope(draw),
        "id": draw.weighted((None, 2), (0, 2), (1, 2), (2, 1), (3, 2), (-1, 1)) if changed_identity else None,
        "addr": draw.weighted((None, 5), *((n, 1) for n in range(ADDRS))) if changed_identity else None,
        "cluster": draw.weighted((None, 6), (0, 1), (1, 1)) if changed_identity else None,
        "name": draw.weighted((None, 6), (0, 1), (1, 1), (2, 1)) if changed_identity else None,
        "bad_id": draw.of(("missing", "x", "", "99999999999999999999")) if draw.rarely(40) else None,
        # how its data version moves: counter, timestamp, stateVersion
        "counter": draw.weighted((1, 6), (0, 6), (-1, 1), (5, 1)),
        "timestamp": draw.weighted((0, 8), (1, 1), (-1, 1)),
        "state": draw.weighted((0, 10), (1, 2), (-1, 2)),
        # its topics: a bit for each; None: those of last time
        "topics": draw.weighted(
            (0b11, 3), (None, 6), (0, 2), (0b1, 2), (0b10, 1), (0b111, 2), (0b11100, 2), (0b111111, 1)
        ),
        "queues": draw.weighted((None, 4), (0, 1), (1, 2), (2, 2), (3, 1), (4, 1)),
        "flags": draw.weighted((0, 8), (1, 2)),
        "static": draw.choose(TOPICS) if draw.rarely(25) else None,
        "filters": draw.weighted(("[]", 4), ("absent", 2), ("null", 2), ("1", 2), ("2", 2)),
        "acting": draw.weighted((None, 4), ("false", 3), ("true", 4), ("TRUE", 1)),
        "zone": draw.weighted((None, 5), (0, 2), (1, 2), (2, 1)),
        "timeout": draw.weighted((None, 5), ("60000", 2), ("x", 1)),
        "ha": draw.weighted(("own", 8), ("missing", 1), ("", 1)),
        "crc": draw.weighted(("right", 9), ("absent", 4), ("0", 2), ("x", 1), ("wrong", 1)),
        "form": draw.weighted(("json", 16), ("zlib", 4), ("bare keys", 1), ("no version", 1), ("absent", 1), ("{}", 1),
                              ("null wrapper", 1), ("null body", 1), ("null table", 1), ("broken", 1)),
        "version": draw.weighted(*((version, 20 if version == 479 else 1) for version in VERSIONS)),
        "oneway": draw.rarely(25) or None,
    }  # fmt: skip


def _unregister(draw: Draw) -> dict[str, Any]:
    return {
        "process": _process(draw),
        **_envelope(draw),
        "id": draw.weighted((None, 6), (0, 1), (3, 1), ("missing", 1), ("x", 1)),
        "addr": draw.weighted((None, 8), (0, 1), (ADDRS, 1), ("missing", 1)),
        "cluster": draw.weighted((None, 8), (0, 1), (1, 1), (CLUSTERS, 1), ("missing", 1)),
        "name": draw.weighted((None, 10), (0, 1), (1, 1), (NAMES, 1), ("missing", 1)),
        "oneway": draw.rarely(20) or None,
    }


def _heartbeat(draw: Draw) -> dict[str, Any]:
    return {
        "process": _process(draw),
        **_envelope(draw),
        "cluster": draw.weighted((None, 8), (0, 1), (1, 1), ("missing", 1)),
        "addr": draw.weighted((None, 10), (ADDRS, 1), ("missing", 1)),
        "oneway": draw.rarely(8) or None,
    }


def _query_data_version(draw: Draw) -> dict[str, Any]:
    return {
        **_heartbeat(draw),
        "id": draw.weighted((None, 6), (3, 1), ("missing", 1)),
        "body": draw.weighted(("same", 6), ("counter", 2), ("timestamp", 1), ("state", 1), ("absent", 1), ("{}", 1),
                              ("no state", 1), ("null", 1), ("broken", 1)),
    }  # fmt: skip


def _route(draw: Draw) -> dict[str, Any]:
    zoned = draw.rarely(4)
    return {
        "topic": _topic(draw),
        **_envelope(draw),
        "version": draw.of(VERSIONS),
        "standard": draw.weighted((None, 5), ("true", 2), ("false", 1), ("TRUE", 1), ("x", 1)),
        "zone_mode": draw.weighted(("true", 5), (None, 1), ("false", 1), ("True", 1)) if zoned else None,
        "zone_name": draw.weighted(("z0", 2), ("Z0", 1), ("zü", 2), ("nowhere", 1), (" ", 1), ("", 1), (None, 1))
        if zoned
        else None,
    }


def _plain(draw: Draw) -> dict[str, Any]:
    return _envelope(draw)


def _of_name(draw: Draw) -> dict[str, Any]:
    return {"name": _name(draw), **_envelope(draw)}


def _member_group(draw: Draw) -> dict[str, Any]:
    return {"name": _name(draw), "cluster": _cluster(draw), **_envelope(draw)}


def _of_cluster(draw: Draw) -> dict[str, Any]:
    return {"cluster": _cluster(draw), **_envelope(draw)}


def _delete_topic(draw: Draw) -> dict[str, Any]:
    return {
        "topic": _topic(draw),
        "cluster": draw.weighted((None, 3), (0, 2), (1, 2), (CLUSTERS, 1)),
        **_envelope(draw),
    }


def _register_topic(draw: Draw) -> dict[str, Any]:
    names: list[int] = []
    for _ in range(draw.weighted((1, 4), (2, 3), (0, 1), (3, 1))):
        name = draw.weighted((0, 5), (1, 4), (2, 3), (NAMES, 1))
        if name not in names:
            names.append(name)
    return {
        "topic": _topic(draw),
        **_envelope(draw),
        "names": names,
        "queues": draw.choose(5),
        "body": draw.weighted((None, 10), ("absent", 1), ("{}", 1), ("null", 1), ("broken", 1)),
    }


def _kv(draw: Draw) -> dict[str, Any]:
    return {
        "namespace": draw.weighted((0, 5), (1, 2), ("ORDER_TOPIC_CONFIG", 2), (KV_NAMESPACES, 1), (None, 1)),
        "key": draw.weighted((0, 4), (1, 3), (2, 2), (None, 1)),
        **_envelope(draw),
    }


def _put_kv(draw: Draw) -> dict[str, Any]:
    return {**_kv(draw), "value": draw.weighted(("v0", 4), ("v1", 4), ("ü;:1", 1), ("", 1), (None, 1))}


def _unknown(draw: Draw) -> dict[str, Any]:
    return {"code": draw.of(UNKNOWN_CODES), **_envelope(draw)}


def _of_process(draw: Draw) -> dict[str, Any]:
    return {"process": _process(draw)}


KINDS: dict[str, tuple[int, Callable[[Draw], dict[str, Any]]]] = {
    "nothing": (1, lambda draw: {}),
    "register": (40, _register),
    "resend": (18, _resend),
    "unregister": (9, _unregister),
    "close": (7, _of_process),
    "reopen": (3, _of_process),
    "close old": (3, _of_process),
    "heartbeat": (4, _heartbeat),
    "query data version": (7, _query_data_version),
    "route": (12, _route),
    "cluster info": (2, _plain),
    "member group": (3, _member_group),
    "wipe write perm": (5, _of_name),
    "add write perm": (3, _of_name),
    "delete topic": (5, _delete_topic),
    "register topic": (5, _register_topic),
    "all topics": (2, _plain),
    "topics of cluster": (3, _of_cluster),
    "system topics": (2, _plain),
    "unit topics": (1, _plain),
    "unit sub topics": (1, _plain),
    "unit sub ununit topics": (1, _plain),
    "put kv": (4, _put_kv),
    "get kv": (2, _kv),
    "delete kv": (2, _kv),
    "kv of namespace": (2, _kv),
    "unknown code": (1, _unknown),
}
"""Kind -> how often, and what is drawn for it."""
