"""Checks arguments of an application, so that the call with a wrong argument raises, and not a background task later.

Each check raises TypeError (wrong type) or ValueError (wrong value); the message has the value and what is expected.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from ..model import DataVersion, TopicConfig, TopicQueueMapping
from ..names import fault_of_name

MAX_QUEUES: Final = 1_000_000
"""The most queues of one topic: each queue takes memory in every client; too many queues end a Java client."""
# The characters that Java's brokers and clients allow, and dots: a broker also registers topics with its brokerName,
# which is often a host name, and with its cluster's name.
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_.-]+")
MAX_PERM: Final = 7
"""4 (read) + 2 (write) + 1 (inherited), as PermName has it."""


def check_name(value: object, what: str) -> str:
    """Return a name that name servers store: 1 to 255 bytes of UTF-8 without control characters."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r} ({type(value).__name__}): expected a str")
    fault = fault_of_name(value)
    if fault is not None:
        raise ValueError(f"{what} {f'{value[:100]!r} ' if value else ''}{fault}")
    return value


def check_topic_name(value: object) -> str:
    """Return a topic's name that name servers, brokers and Java clients accept (TopicValidator, Validators)."""
    name = check_name(value, "topic name")
    if not _TOPIC.fullmatch(name):
        raise ValueError(f"topic name {name[:100]!r} has other characters than letters, digits and % | - _ .")
    return name


def check_instance(value: object, kind: type | tuple[type, ...], what: str, expected: str) -> None:
    """Raise TypeError unless the value is of this kind; ``expected``: the kind in words."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {value!r} ({type(value).__name__}): expected {expected}")


def check_optional(value: object, kind: type, what: str) -> None:
    """Raise TypeError unless the value is None or of this kind."""
    if value is not None:
        check_instance(value, kind, what, f"{kind.__name__} or None")


def check_callable(value: object, what: str) -> None:
    """Raise TypeError unless the value can be called."""
    if not callable(value):
        raise TypeError(f"{what} is {value!r} ({type(value).__name__}): expected a function")


def check_seconds(*, may_be_0: bool = False, **durations_s: object) -> None:
    """Raise unless these durations, in seconds, are positive numbers; their keys are the arguments' names."""
    for name, value in durations_s.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} is {value!r} ({type(value).__name__}): expected a number of seconds")
        if not (value > 0 or (may_be_0 and value == 0)):
            raise ValueError(f"{name} is {value!r}: expected {'0 or more' if may_be_0 else 'more than 0'} seconds")


def check_range(value: int, low: int, high: int, what: str, meaning: str = "") -> None:
    """Raise ValueError unless ``low <= value <= high``; ``meaning`` explains the bounds."""
    if not low <= value <= high:
        raise ValueError(f"{what} is {value}: expected {low} to {high}{f', {meaning}' if meaning else ''}")


@lru_cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def check_field_types(value: msgspec.Struct, what: str) -> None:
    """Raise TypeError for the first field that has another type than its class declares.

    msgspec checks the types of Structs that it decodes, but not of Structs that a program makes.
    """
    for field in _fields(type(value)):
        given = getattr(value, field.name)
        try:
            msgspec.convert(given, field.type)
        except msgspec.ValidationError as error:
            raise TypeError(f"{field.name} of {what} is {given!r}: {error}") from None


def check_topic(topic: object) -> TopicConfig:
    """Return a topic that every name server stores and every client can use."""
    if not isinstance(topic, TopicConfig):
        raise TypeError(f"topic {topic!r} is a {type(topic).__name__}: expected a TopicConfig")
    name = check_topic_name(topic.topic_name)
    check_field_types(topic, f"topic {name!r}")
    for field, value in (("read_queue_nums", topic.read_queue_nums), ("write_queue_nums", topic.write_queue_nums)):
        check_range(value, 0, MAX_QUEUES, f"{field} of topic {name!r}")
    check_range(topic.perm, 0, MAX_PERM, f"perm of topic {name!r}", "the sum of 4 (read), 2 (write) and 1 (inherited)")
    return topic


def check_mapping(mapping: object) -> TopicQueueMapping:
    """Return a static topic's mapping that every name server stores."""
    if not isinstance(mapping, TopicQueueMapping):
        raise TypeError(f"mapping {mapping!r} is a {type(mapping).__name__}: expected a TopicQueueMapping")
    name = check_name(mapping.topic, "topic of a static topic mapping")
    check_field_types(mapping, f"the mapping of static topic {name!r}")
    if mapping.bname:
        check_name(mapping.bname, f"bname of the mapping of static topic {name!r}")
    check_range(mapping.total_queues, 0, MAX_QUEUES, f"total_queues of the mapping of static topic {name!r}")
    return mapping


def check_data_version(version: object) -> DataVersion:
    """Return a data version whose fields fit into 64 bits."""
    if not isinstance(version, DataVersion):
        raise TypeError(f"data_version is {version!r} ({type(version).__name__}): expected a DataVersion")
    check_field_types(version, "the data version")
    for field, value in msgspec.structs.asdict(version).items():
        check_range(value, -(2**63), 2**63 - 1, f"{field} of the data version")
    return version
