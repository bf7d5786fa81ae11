"""The content of a registerBroker request (103), and its limits."""

from __future__ import annotations

from typing import Final

import msgspec

from ...errors import RemoteProtocolError
from ...model import DataVersion, QueueData, TopicQueueMapping
from . import wire_json

MAX_ENTRIES: Final = 100_000
"""The most topics, mappings and filter servers of one registration together."""

MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024
"""The most bytes that a compressed body may inflate to."""

ENTRIES_PER_SLICE: Final = 2000
"""The entries of one slice of work; a slice takes a few milliseconds."""


class RegisterBody(msgspec.Struct, frozen=True):
    """The content of a registration beyond its header."""

    data_version: DataVersion = DataVersion()
    topics: dict[str, QueueData] = {}
    mappings: dict[str, TopicQueueMapping] = {}  # topic name -> static topic mapping at this broker
    filter_servers: list[str] | None = []  # None: the stored list stays; []: it is removed

    def stored_mappings(self, broker_name: str) -> dict[str, tuple[str, str]]:
        """Topic -> (brokerName, JSON) of its mapping, as a Registration of this brokerName has it."""
        return {
            topic: (mapping.bname or broker_name, wire_json.encode_mapping(mapping).decode())
            for topic, mapping in self.mappings.items()
        }


def check_entries(entries: int) -> None:
    """Refuse a registration of too many entries; the RemoteProtocolError (``closes`` is false) says what to do."""
    if entries > MAX_ENTRIES:
        raise RemoteProtocolError(
            f"a registration of {entries} topics, mappings and filter servers: at most {MAX_ENTRIES} are taken at "
            "once; a 5.x broker sends them in parts with enableSplitRegistration=true"
        )
