"""The route tables as the documents describe them: plain dictionaries and obvious code.

Written from the description of the Java NameServer's behaviour and the list of deliberate differences (D1...),
not from the scripts: where the two disagree, one of them is wrong.

Time is a number of seconds that only ``pass_time`` moves.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

# What all brokers get of a namespace that does not look at their own; 120 s but for the tests' clock.
TIMEOUT_48 = 100


@dataclass
class Reg:
    """A registration, as much of it as matters here."""

    cluster: str
    name: str
    id: int
    addr: str
    topics: dict[str, tuple[int, int, int, int]]
    version: tuple[int, int, int] = (1, 1, 0)  # counter, timestamp, state version
    acting: bool | None = None
    zone: str | None = None
    ha: str | None = None
    filters: list[str] | None = None
    timeout: int = 100
    delete_missing: bool = False
    mapping: tuple[str, str] | None = None  # topic, text


@dataclass
class Row:
    cluster: str
    addrs: dict[int, str]
    zone: str | None = None
    acting: bool = False


@dataclass
class Live:
    """One process. version None: it counts as not alive (it was refused, or said goodbye for another name)."""

    names: dict[str, int]
    version: tuple[int, int, int] | None
    timeout: int
    deadline: int
    ha: str | None
    n: int | None
    cluster: str
    closed: int | None = None  # when one of its connections closed; heard since: None
    lost: int | None = None  # when it goes, unless it beats, since it has no connection any more
    updated: int = 0
    period: int = 0
    reg: Any = None  # the registration that is stored, as it came


@dataclass
class Model:
    rows: dict[str, Row] = field(default_factory=dict)
    clusters: dict[str, set[str]] = field(default_factory=dict)
    queues: dict[tuple[str, str], tuple[int, int, int, int]] = field(default_factory=dict)  # (topic, name)
    lives: dict[tuple[str, str], Live] = field(default_factory=dict)
    filters: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    channels: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)  # who -> front end -> channel
    mappings: dict[tuple[str, str], str] = field(default_factory=dict)
    kv: dict[str, dict[str, str]] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    workers: set[str] = field(default_factory=set)  # incarnations that have a lease
    now: int = 0
    seen: int | None = None  # when a front end last renewed its lease
    up_since: int = 0
    registrations: int = 0
    refuses_one_topic = True
    restores_deleted_topics = True

    def who(self, cluster: str, addr: str) -> tuple[str, str]:
        """Who it is, in the live table."""
        return cluster, addr

    def understood(self, reg: Reg) -> Reg:
        """What is understood of it."""
        return reg

    # What a comparison needs

    def topics_of(self, name: str) -> set[str]:
        return {topic for topic, at in self.queues if at == name}

    def tables(self) -> dict[str, Any]:
        """What can be seen from outside."""
        topics: dict[str, dict[str, Any]] = {}
        for (topic, name), data in self.queues.items():
            topics.setdefault(topic, {})[name] = data
        mappings: dict[str, dict[str, str]] = {}
        for (topic, name), text in self.mappings.items():
            mappings.setdefault(topic, {})[name] = text
        return copy.deepcopy(
            {
                "topics": topics,
                "brokers": {n: (r.cluster, r.addrs, r.zone, r.acting) for n, r in self.rows.items()},
                "clusters": self.clusters,
                "broker_topics": {name: self.topics_of(name) for name in self.rows if self.topics_of(name)},
                "filter_servers": {"|".join(who): servers for who, servers in self.filters.items()},
                "mappings": mappings,
                "kv": self.kv,
                "config": self.config,
            }
        )

    # Registration

    def alive(self, who: tuple[str, str]) -> Live | None:
        live = self.lives.get(who)
        return live if live and live.version is not None else None

    def master_of(self, reg: Reg) -> tuple[str, str | None]:
        """A slave is told its master, while that is alive under the slave's own cluster (docs/semantics.md 21)."""
        row = self.rows.get(reg.name)
        addr = row.addrs.get(0) if row and reg.id != 0 else None
        live = self.alive(self.who(reg.cluster, addr)) if addr else None
        return (addr or "", live.ha) if live else ("", None)

    def register(self, reg: Reg, front_end: str, channel: str, *, known: bool = False) -> str:
        """known: the heartbeat knew it, so that it is no new registration, though it means the same."""
        sent, reg, who = reg, self.understood(reg), self.who(reg.cluster, reg.addr)
        row = self.rows.get(reg.name)
        holder = row.addrs.get(reg.id) if row else None
        if holder is not None and holder != reg.addr:
            held = self.alive(self.who(reg.cluster, holder))
            if held and held.version[2] > reg.version[2]:  # docs/semantics.md 20
                if who in self.lives:
                    self.lives[who].version = None
                    self.lives[who].n = None
                return "REFUSED_STATE"
        if holder is None and len(reg.topics) == 1 and self.refuses_one_topic:  # docs/semantics.md 16, D16
            return "REFUSED_ONE_TOPIC"

        if row is None:
            row = self.rows[reg.name] = Row(reg.cluster, {})
        self.clusters.setdefault(reg.cluster, set()).add(reg.name)
        row.zone, row.acting = reg.zone, bool(reg.acting)  # docs/semantics.md 19
        for other_id in [i for i, addr in row.addrs.items() if addr == reg.addr and i != reg.id]:
            del row.addrs[other_id]  # docs/semantics.md 18
        row.addrs[reg.id] = reg.addr

        live = self.alive(who)
        first = holder is None
        changed = live is None or live.version != reg.version
        master = reg.id == 0
        prime = reg.acting is not None and not master and reg.id == min(row.addrs)
        if master or prime:  # docs/semantics.md 22
            if reg.delete_missing and reg.mapping is None:
                for topic in self.topics_of(reg.name) - set(reg.topics):
                    del self.queues[topic, reg.name]
            for topic, (read, write, perm, flag) in reg.topics.items():
                absent = self.restores_deleted_topics and (topic, reg.name) not in self.queues
                if first or changed or absent:  # docs/semantics.md 13
                    if prime and reg.acting:
                        perm &= ~2
                    self.queues[topic, reg.name] = (read, write, perm, flag)
            if reg.mapping is not None and (first or changed):
                self.mappings[reg.mapping[0], reg.name] = reg.mapping[1]
        if reg.filters is not None:  # docs/semantics.md 24
            self.filters.pop(who, None)
            if reg.filters:
                self.filters[who] = list(reg.filters)

        self.registrations += 1
        n = live.n if live and known else self.registrations
        before = self.lives.get(who)
        self.lives[who] = Live(
            (before.names if before else {}) | {reg.name: reg.id}, reg.version, reg.timeout, 0, reg.ha, n, reg.cluster,
            updated=before.updated if before else self.now, period=before.period if before else 0, reg=sent,
        )  # fmt: skip
        self.refresh(who)
        self.attach(who, front_end, channel)
        return "OK"

    def register_late(self, reg: Reg, n: int | None, front_end: str, channel: str) -> str:
        """A registration whose front end last heard of the process when that had registration number n."""
        who = self.who(reg.cluster, reg.addr)
        live = self.lives.get(who)
        if live and live.n is not None and live.n != n and reg.name in live.names:
            newer = any(mine > theirs for mine, theirs in zip(self.understood(reg).version, live.version, strict=True))
            # docs/differences.md D33: a part of a split registration, which has one DataVersion
            is_other_part = self.understood(reg).version == live.version and live.reg != reg
            if not newer and not is_other_part:
                self.refresh(who)
                self.attach(who, front_end, channel)
                return "REFRESHED"
        return self.register(reg, front_end, channel)

    # Signs of life

    def refresh(self, who: tuple[str, str]) -> None:
        live = self.lives[who]
        if self.now > live.updated:
            live.period = self.now - live.updated
        # nobody counts the time in which brokers cannot be heard: it begins with the next renewal
        live.deadline = (self.now if self.seen is None else self.seen) + live.timeout
        live.updated, live.closed, live.lost = self.now, None, None

    def attach(self, who: tuple[str, str], front_end: str, channel: str, *, only_if_none: bool = False) -> None:
        channels = self.channels.setdefault(who, {})
        if not (only_if_none and front_end in channels):
            channels[front_end] = channel

    def touch(
        self, who: tuple[str, str], front_end: str, channel: str, only_version: tuple[int, int, int] | None = None
    ) -> bool:
        live = self.alive(who)
        if not live or (only_version is not None and only_version != live.version):
            return False
        self.refresh(who)
        self.attach(who, front_end, channel, only_if_none=True)
        return True

    # Removal

    def take_out(self, name: str, addr: str) -> bool:
        """Take an address out of a row, and everything with it if it was the last."""
        row = self.rows.get(name)
        ids = [i for i, at in row.addrs.items() if at == addr] if row else []
        if not ids:
            return False  # another address has the id (docs/semantics.md 29)
        del row.addrs[ids[0]]
        if not row.addrs:
            del self.rows[name]
            for topic in self.topics_of(name):
                del self.queues[topic, name]
            for cluster in list(self.clusters):
                self.clusters[cluster].discard(name)
                if not self.clusters[cluster]:
                    del self.clusters[cluster]
        else:
            self.wipe_without_master(name)
        return True

    def wipe_without_master(self, name: str) -> None:
        row = self.rows.get(name)
        if row and row.acting and 0 not in row.addrs:  # docs/semantics.md 32
            for topic in self.topics_of(name):
                read, write, perm, flag = self.queues[topic, name]
                self.queues[topic, name] = (read, write, perm & ~2, flag)

    def forget(self, who: tuple[str, str]) -> None:
        self.lives.pop(who, None)
        self.filters.pop(who, None)
        self.channels.pop(who, None)

    def remove(self, who: tuple[str, str]) -> None:
        """The process is gone: out of every name it stands under."""
        for name in self.lives[who].names:
            # it came back under another cluster without a close: the place is that one's now
            if not any(name in live.names for other, live in self.lives.items() if other != who and other[1] == who[1]):
                self.take_out(name, who[1])
        self.forget(who)

    def unregister(self, cluster: str, addr: str, name: str, broker_id: int) -> None:
        row = self.rows.get(name)
        stood = row is not None and addr in row.addrs.values()
        concerned = [(cluster, addr)]
        if stood:  # D4: whatever cluster it says
            concerned += [(c, addr) for c, names in self.clusters.items() if name in names and c != cluster]
        if stood:
            self.take_out(name, addr)
        else:
            self.wipe_without_master(name)  # any goodbye to such a name does, as seen on running servers
        for who in concerned:
            live = self.lives.get(who)
            if live is None or (who != concerned[0] and name not in live.names):
                continue
            live.names.pop(name, None)
            if live.names:
                live.version = live.n = None
                self.filters.pop(who, None)
            else:
                self.forget(who)

    def close(self, who: tuple[str, str], front_end: str, channel: str, *, hung_up: bool = True) -> str:
        channels = self.channels.get(who, {})
        if channels.get(front_end) != channel:
            return "STALE"  # docs/semantics.md 29
        del channels[front_end]
        if channels or not hung_up:
            self.lives[who].closed = self.now  # D11, D33
            if not channels:
                self.disconnect(who)
            return "KEPT"
        self.remove(who)
        return "REMOVED"

    def disconnect(self, who: tuple[str, str]) -> None:
        """It has no connection any more: if one was seen closing, it has to beat soon."""
        live = self.lives[who]
        if live.closed is not None:
            since = self.up_since if live.closed > self.now else max(live.closed, self.up_since)
            live.lost = since + max(30, min(live.period, live.timeout // 2)) + 5

    # Time

    def pass_time(self, seconds: int, *, watched: bool) -> None:
        self.now += seconds
        if watched:
            self.seen = self.now

    def watch(self) -> None:
        """D12, at each renewal: a gap between renewals, or a step back of the clock, leaves everybody the time it had.

        Who has no connection has the time to beat once.
        """
        if self.seen is None or self.now > self.seen + 3 or self.now < self.seen:
            gap = 0 if self.seen is None else self.now - self.seen
            for live in self.lives.values():
                live.deadline += gap
                if live.lost is not None and self.seen is not None:
                    live.lost = max(live.lost + gap, self.now + 35)
            self.up_since = self.now
        self.seen = self.now

    def heard(self) -> bool:
        """Whether a front end renewed its lease just now: without one, silence says nothing about a broker."""
        return self.seen == self.now

    def due(self) -> set[tuple[str, str]]:
        """Whom a sweep removes now."""
        if not self.heard():
            return set()
        for who, live in self.lives.items():
            if live.lost is not None and live.lost <= self.now and self.channels.get(who):
                live.lost = None  # it was attached again
        return {
            who
            for who, live in self.lives.items()
            if live.deadline <= self.now or (live.lost is not None and live.lost <= self.now)
        }

    def expire(self) -> set[tuple[str, str]]:
        gone = self.due()
        for who in sorted(gone):
            self.remove(who)
        return gone

    def reap(self) -> None:
        if self.heard() and self.now >= self.up_since + 10:
            every = {channel.split("/")[0] for channels in self.channels.values() for channel in channels.values()}
            self.give_up(every - self.workers)

    def give_up(self, incarnations: set[str]) -> None:
        """Their channels go, and no broker."""
        for who, channels in list(self.channels.items()):
            left = [fe for fe, channel in channels.items() if channel.split("/")[0] in incarnations]
            for front_end in left:
                del channels[front_end]
            if left and not channels:
                self.disconnect(who)

    def release(self, incarnation: str) -> None:
        """A worker drains: as when it is dead and reaped."""
        self.workers.discard(incarnation)
        self.give_up({incarnation})

    # Administration

    def set_perm(self, name: str, mode: str) -> int:
        topics = self.topics_of(name)
        for topic in topics:
            read, write, perm, flag = self.queues[topic, name]
            self.queues[topic, name] = (read, write, perm & ~2 if mode == "wipe" else 6, flag)
        return len(topics)

    def delete_topic(self, topic: str, cluster: str) -> None:
        for at, name in list(self.queues):
            if at == topic and (not cluster or name in self.clusters.get(cluster, ())):
                del self.queues[at, name]

    def register_topic(self, topic: str, pairs: list[tuple[str, tuple[int, int, int, int]]]) -> None:
        exists = any(at == topic for at, _ in self.queues)
        if not exists and any(name not in self.rows for name, _ in pairs):
            return  # docs/semantics.md 37
        for name, data in pairs:
            if name not in self.rows:
                return
            self.queues[topic, name] = data

    def put_kv(self, namespace: str, key: str, value: str | None) -> None:
        table = self.kv.setdefault(namespace, {})
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def delete_kv(self, namespace: str, key: str) -> None:
        self.kv.get(namespace, {}).pop(key, None)


class Model48(Model):
    """A namespace of compat 4.8; the rows are those of the table "4.8.0 -> 5.3.3"."""

    refuses_one_topic = False  # row 1
    restores_deleted_topics = False  # row 3

    def who(self, cluster: str, addr: str) -> tuple[str, str]:
        return "", addr  # row 4

    def understood(self, reg: Reg) -> Reg:
        counter, timestamp, _ = reg.version
        version = (counter, timestamp, 0)  # row 7
        # rows 8, 9, 12, 15, 17, 26
        return replace(
            reg, version=version, acting=None, zone=None, mapping=None, timeout=TIMEOUT_48, delete_missing=False
        )

    def unregister(self, cluster: str, addr: str, name: str, broker_id: int) -> None:
        """Row 2: the id goes from the name; the address, whatever it has to do with that, is not alive any more."""
        row = self.rows.get(name)
        if row and broker_id in row.addrs:
            self.take_out(name, row.addrs[broker_id])
        who = self.who(cluster, addr)
        live = self.lives.get(who)
        if live is None:
            return
        if not self.stands(name, addr):
            live.names.pop(name, None)
        if any(self.stands(other, addr) for other in live.names):
            live.version = live.n = None
            self.filters.pop(who, None)
        else:
            self.forget(who)

    def stands(self, name: str, addr: str) -> bool:
        return name in self.rows and addr in self.rows[name].addrs.values()

    def delete_topic(self, topic: str, cluster: str) -> None:
        super().delete_topic(topic, "")  # row 13
