"""Decides what a registration (103) changes in the tables. Pure.

Source: RouteInfoManager.registerBroker of RocketMQ 5.x; docs/semantics.md 12 to 25.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import msgspec

from ..model import MASTER_ID, PERM_WRITE, BrokerRow, DataVersion, QueueData, Registration
from .tables import Tables

_ORDINARY_BYTES: Final = 64
_MORE_BYTES: Final = 24


def entries_of(count: int, text_bytes: int) -> int:
    """The work of a script for this number of names, measured in names of an ordinary length.

    A name of 255 bytes counts as nine: Redis may take nine times as long for names that an attacker chose
    (lua/include/collect).
    """
    return count + max(0, text_bytes - _ORDINARY_BYTES * count) // _MORE_BYTES


class RegistrationDiff(NamedTuple):
    """What a registration changes in the tables with this epoch, rev, n and config_rev."""

    epoch: str  # of the registry
    rev: int  # of the broker's row, 0 without one
    n: str  # of the broker's live info, "0" without one
    config_rev: int
    topics: dict[str, QueueData]  # queue data to write
    dropped: Sequence[str]  # topics that the brokerName loses
    mappings: Sequence[tuple[str, str, str]]  # to store, as (topic, brokerName, JSON); some may be there already

    @property
    def entries(self) -> int:
        """The work of writing the diff, in topics with new queue data; a dropped topic or a mapping counts as two."""
        others = itertools.chain(self.dropped, itertools.chain.from_iterable(self.mappings))
        return entries_of(len(self.topics), len("".join(self.topics))) + 2 * entries_of(
            len(self.dropped) + len(self.mappings), sum(map(len, others))
        )


def compare(
    registration: Registration,
    known_version: DataVersion | None,
    tables: Tables,
    *,
    epoch: str = "",
    n: str = "0",
    delete_missing_topics: bool = False,
    stay_deleted: Container[str] | None = (),
    is_new_body: bool = False,
) -> RegistrationDiff:
    """Find which queue data, topics and mappings a registration changes.

    Only the master's topics count, or with acting masters the topics of the lowest id (without write permission while
    enableActingMaster is true). If the data version is unchanged, existing queue data stays, so that a wiped permission
    stays wiped, and absent queue data is added (5.x). A new body with an unchanged version is a part of a split
    registration, or the whole after a part (docs/differences.md D33): its new topics count, and missing topics stay.

    Args:
        known_version: the DataVersion of the last registration of the same process; None: the process is not alive.
        epoch, n: of the registry and of the broker's live info, for the result.
        delete_missing_topics: deleteTopicWithBrokerRegistration.
        stay_deleted: topics that an unchanged version does not bring back (4.8); None: it brings none back.
        is_new_body: the process's last registration had another body.
    """
    name = registration.broker_name
    row = tables.brokers.get(name)
    topics: dict[str, QueueData] = {}
    dropped: list[str] = []
    mappings: list[tuple[str, str, str]] = []
    diff = RegistrationDiff(epoch, row.rev if row else 0, n, tables.config_rev, topics, dropped, mappings)
    role = role_of(registration, row)
    if not role.counts:
        return diff

    everything = role.is_new or known_version != registration.data_version
    is_part = is_new_body and not everything
    registered, masked = registration.topics, PERM_WRITE if role.wipes_write else 0
    if everything and not masked and name not in tables.broker_topics:
        topics.update(registered)
        registered = {}  # there is no queue data to compare with
    for topic, queue_data in registered.items():
        queue_datas = tables.topics.get(topic)
        present = queue_datas.get(name) if queue_datas else None
        if present is None:
            if not everything and (stay_deleted is None or topic in stay_deleted):
                continue
        elif not (everything or is_part):
            continue
        if queue_data.perm & masked:
            queue_data = msgspec.structs.replace(queue_data, perm=queue_data.perm & ~masked)
        if present is not None and (
            present == queue_data
            or (present.registered is not msgspec.UNSET and present.numbers == queue_data.numbers)
            or (is_part and present.registered == queue_data.numbers)
        ):
            continue  # the last case: the broker registers the same as before; a request (e.g. 205) changed it since
        topics[topic] = queue_data

    if delete_missing_topics and not is_part and not registration.mappings:
        dropped += sorted(tables.broker_topics.get(name, set()) - registration.topics.keys())
    if everything or is_part:
        for topic, (mapped_name, mapping) in registration.mappings.items():
            # A mapping stays when its brokerName is removed, and may be of another brokerName: then no rev shows that
            # it changed.
            guarded = row is not None and mapped_name == name
            if not guarded or tables.mappings.get(topic, {}).get(mapped_name) != mapping:
                mappings.append((topic, mapped_name, mapping))
    return diff


class BrokerRole(NamedTuple):
    """The role of a registration in its brokerName."""

    counts: bool  # its topics are the brokerName's
    wipes_write: bool  # its topics lose their write permission
    is_new: bool  # no broker had its id


def role_of(registration: Registration, row: BrokerRow | None) -> BrokerRole:
    """Work out the role of a registration, given the brokerName's row before it."""
    addrs = {} if row is None else row.broker_addrs
    # an address has one id: the registering address leaves its old id
    ids = {one for one, addr in addrs.items() if addr != registration.broker_addr or one == registration.broker_id}
    is_new = registration.broker_id not in ids
    ids.add(registration.broker_id)
    is_master = registration.broker_id == MASTER_ID
    is_prime_slave = (
        registration.enable_acting_master is not None and not is_master and registration.broker_id == min(ids)
    )
    return BrokerRole(is_master or is_prime_slave, is_prime_slave and bool(registration.enable_acting_master), is_new)
