"""A registration that says something else than the last one: decoded as far as needed, compared, written."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from registry.behaviour import FIVE, Behaviour
from registry.errors import StoreUnavailable
from registry.model import Registration
from registry.protocol.bodies import RegisterBody, decode_register_body
from registry.protocol.codes import VERSION_V3_0_11
from registry.protocol.command import Command
from registry.protocol.headers import RegisterBroker
from registry.protocol.register_pieces import Read, read_alike, read_difference, read_whole
from registry.registration import Changes, Role, compare, role_of
from registry.server.front_end import FrontEnd, Peer
from registry.server.last_bodies import LastBody
from registry.store.routes import TOPICS_PER_EVENT, Heartbeat, Registered, RegistrationDiff
from registry.tables import Cells, Standing

LARGE_BYTES: Final = 64 * 1024
"""Changed registrations from this size on take turns, and are read by their difference."""

# Somebody else changed the row between comparing and writing, this many times in a row.
_ATTEMPTS = 10


class Arrived(NamedTuple):
    """A registration as it came, its crc32 found right; identity: cluster, brokerName, address, id."""

    header: RegisterBroker
    command: Command
    who: str
    digest: str
    peer: Peer
    identity: tuple[str, str, str, int]

    @property
    def is_large(self) -> bool:
        """Whether it is worth some trouble."""
        return len(self.command.body) >= LARGE_BYTES

    @property
    def in_pieces(self) -> bool:
        """Whether its body may be one that is read in pieces."""
        return self.is_large and not self.header.compressed and self.command.version >= VERSION_V3_0_11


async def ask(front_end: FrontEnd, arrived: Arrived) -> Heartbeat:
    """Ask Redis whether this is the registration of last time."""
    cluster, name, addr, broker_id = arrived.identity
    return await front_end.routes.heartbeat(
        cluster, name, broker_id, addr, arrived.digest, arrived.peer.channel, len(arrived.command.body)
    )


def decode_whole(front_end: FrontEnd, arrived: Arrived) -> tuple[Registration, Read | None]:
    """As ``decode``, with what is kept of other brokers of this cluster; a new broker's body is kept for the next.

    Raises:
        RemoteProtocolError: the body cannot be read.
    """
    cluster, name, _, _ = arrived.identity
    if not arrived.in_pieces:
        return decode(front_end.behaviour, arrived)
    alike = front_end.alike_bodies.get(cluster)
    is_new = name not in front_end.view.exact.brokers
    registration, read = decode(front_end.behaviour, arrived, alike=alike, by_piece=is_new)
    if alike is None and is_new and read is not None:
        front_end.alike_bodies.put(cluster, read)
    return registration, read


def decode(
    behaviour: Behaviour, arrived: Arrived, *, alike: Read | None = None, by_piece: bool = False
) -> tuple[Registration, Read | None]:
    """The whole registration, as far as this version understands it; and its pieces if it is large.

    Args:
        alike: another broker's body that may be much the same, with ``by_piece``.
        by_piece: the pieces are wanted with their topics.

    Raises:
        RemoteProtocolError: the body cannot be read.
    """
    command = arrived.command
    # A body that names no data version gets the server's clock as its timestamp, as in Java.
    now_ms = int(time.time() * 1000)
    read = None
    if arrived.in_pieces:
        if alike is not None:
            read = read_alike(command.body, alike, now_ms=now_ms)
        if read is None:
            read = read_whole(command.body, now_ms=now_ms, by_piece=by_piece)
    if read is not None:
        return _registration(behaviour, arrived, read.body), read
    body = decode_register_body(
        command.body,
        compressed=arrived.header.compressed,
        version=command.version,
        now_ms=now_ms,
        mappings=behaviour.static_topics,
    )
    return _registration(behaviour, arrived, body), None


def _registration(behaviour: Behaviour, arrived: Arrived, body: RegisterBody) -> Registration:
    header = arrived.header
    cluster, name, addr, broker_id = arrived.identity
    registration = Registration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        broker_addr=addr,
        ha_server_addr=header.ha_server_addr,
        zone_name=header.zone_name,
        enable_acting_master=header.enable_acting_master,
        heartbeat_timeout_ms=header.heartbeat_timeout_millis,
        data_version=body.data_version,
        topics=body.topics,
        mappings=body.stored_mappings(name),
        filter_servers=body.filter_servers,
    )
    return registration if behaviour is FIVE else behaviour.seen(registration)


async def write_difference(front_end: FrontEnd, arrived: Arrived, beat: Heartbeat) -> Registered | Heartbeat | None:
    """Read what differs from this broker's last body, and write what that changes.

    Only where it comes to the same as the whole: that body stands in the tables as it was, and every topic of this
    one counts anew because the data version is another. The view has ``beat.seq``.

    Returns:
        None when it cannot be told; a RETRY has written nothing either; a Heartbeat as ``write_whole``.
    """
    last = front_end.last_bodies.get(arrived.who)
    name = arrived.identity[1]
    if last is None or last.broker_name != name or not arrived.in_pieces:
        return None
    if front_end.settings.delete_topic_with_broker_registration:
        return None  # it takes every name to see which are missing
    view = front_end.view
    row = view.exact.brokers.get(name)
    if row is None or (view.epoch, row.rev) != (last.epoch, last.rev):
        return None
    known_topics = view.exact.broker_topics.get(name, set())
    read = read_difference(arrived.command.body, last.pieces, known_topics, now_ms=int(time.time() * 1000))
    if read is None:
        return None
    registration = _registration(front_end.behaviour, arrived, read.body)
    role = role_of(registration, row)
    if not role.counts or role.wipes_write != last.wipes_write or registration.data_version == beat.data_version:
        return None
    return await _attempt(front_end, arrived, registration, read, beat, False)


async def write_whole(
    front_end: FrontEnd,
    arrived: Arrived,
    registration: Registration,
    read: Read | None,
    beat: Heartbeat,
    deletes_missing: bool,
) -> Registered | Heartbeat:
    """Compare with the view and write the difference, until nobody else changed the row in between.

    Returns:
        a Heartbeat when another front end wrote the same just now: brokers send it to all of them at once.
    """
    for _ in range(_ATTEMPTS):
        await front_end.effect(beat.seq)
        result = await _attempt(front_end, arrived, registration, read, beat, deletes_missing)
        if isinstance(result, Heartbeat) or result.status != "RETRY":
            return result
        beat = Heartbeat(False, result.seq, n=result.n, data_version=result.data_version)
    raise StoreUnavailable(f"{registration.broker_name} is being changed from elsewhere all the time; register again")


async def _attempt(
    front_end: FrontEnd,
    arrived: Arrived,
    registration: Registration,
    read: Read | None,
    beat: Heartbeat,
    deletes_missing: bool,
) -> Registered | Heartbeat:
    """Once; returns when this worker's view shows the change."""
    view = front_end.view
    tables, compared_at = view.exact, view.seq
    row = tables.brokers.get(registration.broker_name)
    role = role_of(registration, row)
    cells: list[Cells] = []
    changes = compare(
        registration,
        beat.data_version,
        tables,
        delete_missing_topics=deletes_missing,
        restore_missing_topics=front_end.behaviour.restores_deleted_topics,
        cells=cells,
    )
    diff = RegistrationDiff(view.epoch, row.rev if row else 0, beat.n, tables.config_rev, *changes)
    if row is not None and all(changes.before):
        diff = diff._replace(place=(Standing(tables, registration.broker_name, row.rev), cells))
    elif read is not None and not role.wipes_write and _is_all_of(changes, registration, read):
        diff = diff._replace(encoded=front_end.alike_bodies.encoded(registration.cluster, read))
    if len(changes.topics) > TOPICS_PER_EVENT:
        again = await ask(front_end, arrived)
        if again.same:
            await front_end.effect(again.seq)
            return again
    result = await front_end.routes.register_broker(
        registration, diff, digest=arrived.digest, channel=arrived.peer.channel,
        body_bytes=len(arrived.command.body), topics=read.topics if read else len(registration.topics),
        default_timeout_ms=front_end.settings.broker_channel_expired_time_ms,
    )  # fmt: skip
    if result.status == "RETRY" and result.seq <= compared_at and result.n == beat.n:
        # Nothing happened since, and still Redis disagrees: it is not the one that the view was read from.
        front_end.health.look_again()
        raise StoreUnavailable("Redis holds another state than this front end knew; register again")
    if result.status in ("OK", "REFRESHED"):
        front_end.channels.registered(arrived.who, arrived.peer, result.seq)
    if result.changed:
        await front_end.effect(result.seq)
    if result.status == "OK" and read is not None:
        _remember(front_end, arrived, registration, role, beat, read, diff, result)
    return result


def _is_all_of(changes: Changes, registration: Registration, read: Read) -> bool:
    """Whether every topic of the body, as it stands there, is new."""
    topics = read.body.topics
    return (
        read.by_piece is not None
        and registration.topics is topics
        and len(changes.topics) == len(topics)
        and not any(changes.before)
    )


def _remember(
    front_end: FrontEnd,
    arrived: Arrived,
    registration: Registration,
    role: Role,
    beat: Heartbeat,
    read: Read,
    diff: RegistrationDiff,
    result: Registered,
) -> None:
    if not role.counts or not (role.is_new or beat.data_version != registration.data_version):
        return  # the tables need not be as this body says; of the last one, what is known holds on
    row = front_end.view.exact.brokers.get(registration.broker_name)
    # the row's rev is that of this change, or if nothing of the row or its topics changed, the one before
    if row is None or front_end.view.epoch != diff.epoch or row.rev not in (diff.rev, result.seq):
        front_end.last_bodies.forget(arrived.who)
        return
    last = LastBody(registration.broker_name, diff.epoch, row.rev, role.wipes_write, read.pieces)
    front_end.last_bodies.put(arrived.who, last)
