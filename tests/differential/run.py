"""One sequence of steps at both servers: send, compare, and compare the tables at the end."""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.servers.processes import Processes, free_port, wait_until
from tests.interop.name_servers import OurNameServers
from tests.interop.rocketmq import Release, start_java_name_server
from tests.interop.wire import parse_json

from . import normal, wire
from .deliberate import DELIBERATE
from .steps import ADDRS, CLUSTERS, KEYS, KV_NAMESPACES, NAMES, PROCESSES, TOPICS, ZONES, Step
from .wire import Answer, Connection

EFFECT_S = 3.0
FENCE_AGAIN_S = 0.3
ROUND_TRIPS = 5
REPEATS = 5
IN_TOUCH_S = 60.0
CANNOT_TELL = "the name server cannot tell now"
PERMS = (6, 6, 4, 2, 7)
TIMESTAMP = 1_000_000
PLAIN_CODES = {
    "cluster info": 106,
    "all topics": 206,
    "system topics": 304,
    "unit topics": 311,
    "unit sub topics": 312,
    "unit sub ununit topics": 313,
}


class Difference(Exception):
    """The servers do not agree."""

    def __init__(self, where: str, lines: list[str]) -> None:
        super().__init__(f"{where}\n" + "\n".join(f"    {line}" for line in lines))


class NotNow(Exception):
    """Ours says that it is out of touch with its Redis: no answer to compare."""


class Server:
    """One of the two, with the ways to wait until what it queued is done."""

    def __init__(self, name: str, port: int, *, as_48: bool = False) -> None:
        self.name = name
        self.port = port
        self.as_48 = as_48
        self.control = self.connect()
        self._opaque = 1 << 20
        self._fences = 0

    def connect(self) -> Connection:
        return Connection(self.port)

    def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", connection: Connection | None = None
    ) -> Answer:
        self._opaque += 1
        connection = connection or self.control
        connection.send(wire.encode(code, self._opaque, ext, body))
        answer = connection.receive(self._opaque)
        assert answer is not None, f"{self.name} hung up on {code} {ext}"
        return answer

    def tables(self) -> dict[str, Any]:
        answer = self.ask(106)
        for _ in range(REPEATS):
            if answer.code == 0:
                break
            answer = self.ask(106)  # 4.8 writes its tables as JSON without a lock, and may trip over a change
        assert answer.code == 0, f"{self.name}: 106 is answered {answer.code}, {answer.remark}"
        return dict(parse_json(answer.body))

    def unregister(self, cluster: str, name: str, addr: str, broker_id: str = "0") -> None:
        self.ask(104, {"brokerId": broker_id, "clusterName": cluster, "brokerAddr": addr, "brokerName": name})

    def fence_unregister(self) -> None:
        """Return once every 104 answered before had its effect: they are done in order, in 4.8 before the answer."""
        if not self.as_48:
            self._fence(lambda ext: self.ask(104, ext))

    def fence_close(self) -> None:
        """The same for connections that closed before."""
        self._fence(None)

    def _fence(self, remove: Callable[[dict[str, str]], Any] | None) -> None:
        deadline = time.monotonic() + EFFECT_S
        self._fences += 1
        name = f"fence{self._fences}"
        while True:
            ext = {"clusterName": "fence", "brokerName": name, "brokerAddr": f"{name}:1", "brokerId": "0"}
            connection = self.control if remove else self.connect()
            self.ask(103, {**ext, "haServerAddr": ""}, connection=connection)
            if remove:
                remove(ext)
            else:
                connection.hang_up()
            again = time.monotonic() + FENCE_AGAIN_S
            while time.monotonic() < again:
                if not self._stands(name):
                    return
                time.sleep(0.0005)
            # A bad 104 in the same batch took the fence along (D5): once more.
            assert time.monotonic() < deadline, f"{self.name} did not remove {name} within {EFFECT_S} s"

    def _stands(self, name: str) -> bool:
        if self.as_48:
            return name in self.tables()["brokerAddrTable"]
        group = parse_json(self.ask(901, {"clusterName": "fence", "brokerName": name}).body)
        return bool(group["brokerMemberGroup"]["brokerAddrs"])


class Line:
    """A broker process's connection, to either server."""

    def __init__(self, pair: Pair) -> None:
        self.connections = [server.connect() for server in pair.servers]

    def hang_up(self) -> None:
        for connection in self.connections:
            connection.hang_up()


class Pair:
    """The Java NameServer and ours; they serve any number of sequences, each with names of its own.

    version: of the Java one; with 4.8.0 (as_48), ours is in its mode.
    """

    def __init__(self, java_port: int, our_port: int, version: str) -> None:
        as_48 = version.startswith("4.")
        self.set_up(Server("java", java_port, as_48=as_48), Server("ours", our_port, as_48=as_48), version)

    def set_up(self, java: Server, ours: Server, version: str) -> None:
        self.version = version
        self.as_48 = version.startswith("4.")
        self.java, self.ours = java, ours
        self.servers = (java, ours)
        self.sequences = 0
        self.not_now = 0
        self.sent: Counter[str] = Counter()
        self.stepped_aside: Counter[str] = Counter()

    def run(self, steps: Sequence[Step]) -> None:
        """Raises Difference."""
        for _ in range(REPEATS):
            self.sequences += 1
            try:
                Run(self, f"q{self.sequences}x").run(steps)
                return
            except NotNow:
                self.not_now += 1
                wait_until(
                    "ours is in touch again", lambda: self.ours.ask(105, {"topic": "none"}).code == 17, IN_TOUCH_S
                )
        raise AssertionError(f"ours lost touch with its Redis {REPEATS} times during one sequence")

    def close(self) -> None:
        for server in self.servers:
            server.control.socket.close()


def start_pair(processes: Processes, release: Release, properties: Mapping[str, str] | None = None) -> Pair:
    """The NameServer of this release, and ours as it is told to behave like it; properties are for both."""
    as_48 = release.version.startswith("4.")
    java_port = free_port()
    start_java_name_server(processes, release, java_port, properties)
    ours = OurNameServers().start(processes, {**(properties or {}), **({"compat": "4.8"} if as_48 else {})})
    return Pair(java_port, ours.port, release.version)


@dataclass
class Said:
    """What a broker process remembers of itself."""

    counter: int = 1
    timestamp: int = 0
    state: int = 0
    topics: dict[int, tuple[int, int, int, int]] = field(default_factory=lambda: {0: (4, 4, 6, 0), 1: (4, 4, 6, 0)})
    last: tuple[dict[str, str], bytes, int, dict[str, Any]] | None = None

    def version(self) -> dict[str, int]:
        return {"counter": self.counter, "stateVersion": self.state, "timestamp": TIMESTAMP + self.timestamp}


class Run:
    """One sequence."""

    beside_java = True

    def __init__(self, pair: Pair, prefix: str) -> None:
        self.pair = pair
        self.as_48 = pair.as_48
        self.prefix = prefix
        self.opaque = 0
        self.control = Line.__new__(Line)
        self.control.connections = [server.control for server in pair.servers]
        self.lines: dict[int, Line] = {}
        self.old: dict[int, list[Line]] = {}
        self.said = [Said() for _ in PROCESSES]
        self.owner: dict[tuple[str, str], Line] = {}
        self.told: dict[tuple[str, str], tuple[Any, dict[Any, tuple[int, int, int, int]], Any]] = {}
        """Per process: the DataVersion of its last registration, the queue data that it has registered with it, and
        what it sent."""
        self.rows: dict[str, dict[str, Any]] = {}
        self.clusters: dict[str, set[str]] = {}
        self.ghosts: set[tuple[str, str]] = set()
        self.left_in_row: set[tuple[str, str]] = set()
        """Who said goodbye under a brokerName that is not its own, and stands in its row all the same (D5)."""
        self.where = ""

    def run(self, steps: Sequence[Step]) -> None:
        try:
            for number, step in enumerate(steps):
                self.where = f"step {number}: {step}"
                getattr(self, "do_" + step.kind.replace(" ", "_"), self.do_plain)(step.kind, **step.args)
            self.compare_tables()
        finally:
            self.clean_up()

    # names

    def cluster(self, number: Any) -> Any:
        return f"{self.prefix}c{number}" if isinstance(number, int) else number

    def name(self, number: Any) -> Any:
        return f"{self.prefix}b{number}" if isinstance(number, int) else number

    def addr(self, number: Any) -> Any:
        return f"{self.prefix}h{number}:10911" if isinstance(number, int) else number

    def topic(self, number: Any) -> Any:
        return f"{self.prefix}t{number}" if isinstance(number, int) else number

    def line(self, process: int) -> Line:
        if process not in self.lines:
            self.lines[process] = Line(self.pair)
        return self.lines[process]

    def who(self, cluster: str, addr: str) -> tuple[str, str]:
        """The key of the live table."""
        return ("" if self.as_48 else cluster), addr

    # asking both

    def exchange(
        self,
        code: int,
        ext: dict[str, str | None] | None = None,
        body: bytes = b"",
        *,
        line: Line | None = None,
        oneway: bool | None = None,
        version: int = 479,
        binary: bool | None = None,
        edit: Callable[[Any], Any] = lambda body: body,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The shapes of both answers; {} twice for a oneway request."""
        self.opaque += 1
        line = line or self.control
        given = None if ext is None else {key: value for key, value in ext.items() if value is not None}
        frame = wire.encode(
            code, self.opaque, given, body, flag=wire.ONEWAY if oneway else 0, version=version, binary=bool(binary)
        )
        for connection in line.connections:
            connection.send(frame)
        self.pair.sent[str(code)] += 1
        if oneway:
            return {}, {}
        java, ours = (normal.shape(connection.receive(self.opaque), edit) for connection in line.connections)
        if (ours.get("remark") or "").startswith(CANNOT_TELL):
            raise NotNow
        return java, ours

    def same(
        self, code: int, ext: dict[str, str | None] | None = None, body: bytes = b"", **how: Any
    ) -> dict[str, Any]:
        """Ask both; they must agree. What they said."""
        java, ours = self.exchange(code, ext, body, **how)
        self.must_agree(java, ours, f"{code} {ext}")
        return java

    def same_where_known(self, code: int, ext: dict[str, str | None] | None, body: bytes = b"", **how: Any) -> None:
        """The same for what 4.8 does not know: it never answers, and ours says so (D8). Neither changes anything."""
        if not self.as_48:
            self.same(code, ext, body, **how)
            return
        self.opaque += 1
        line, oneway = how.get("line") or self.control, how.get("oneway")
        given = None if ext is None else {key: value for key, value in ext.items() if value is not None}
        flag = wire.ONEWAY if oneway else 0
        frame = wire.encode(code, self.opaque, given, body, flag=flag, binary=bool(how.get("binary")))
        for connection in line.connections:
            connection.send(frame)
        self.pair.sent[str(code)] += 1
        if not oneway:
            answer = line.connections[1].receive(self.opaque)
            assert answer is not None
            ours = {"code": answer.code, "remark": answer.remark}
            self.must_agree({"code": 3, "remark": f" request type {code} not supported"}, ours, f"{code} {ext}")

    def must_agree(self, java: dict[str, Any], ours: dict[str, Any], what: str) -> None:
        normal.accept_exception_text(java, ours)
        if java != ours:
            raise Difference(f"{self.where}\n  {what}", normal.differences(java, ours))

    def step_aside(self, reason: str) -> None:
        assert reason in DELIBERATE
        self.pair.stepped_aside[reason] += 1

    def mine(self, body: Any) -> Any:
        """A body without what is not of this sequence."""
        if isinstance(body, dict) and isinstance(body.get("topicList"), list):
            body = body | {"topicList": [name for name in body["topicList"] if name.startswith(self.prefix)]}
        if isinstance(body, dict) and isinstance(body.get("table"), dict):
            return {"table": {key: value for key, value in body["table"].items() if key.startswith(self.prefix)}}
        return body

    # the tables of 106

    def cluster_info(self, server: int) -> dict[str, Any]:
        """The rows and clusters of this sequence; 0 is Java."""
        tables = self.pair.servers[server].tables()
        rows = {name: row for name, row in tables["brokerAddrTable"].items() if name.startswith(self.prefix)}
        clusters = {
            cluster: set(names)
            for cluster, names in tables["clusterAddrTable"].items()
            if cluster.startswith(self.prefix)
        }
        return {"rows": rows, "clusters": clusters}

    def compare_rows(self, *, removal: bool) -> None:
        """106 of both agrees, but for names that removals left behind in Java's clusters (D4)."""
        java, ours = self.cluster_info(0), self.cluster_info(1)
        listed = {(cluster, name) for cluster, names in ours["clusters"].items() for name in names}
        self.ghosts -= listed
        for cluster, names in java["clusters"].items():
            for name in names:
                if removal and (cluster, name) not in listed and name not in java["rows"]:
                    self.ghosts.add((cluster, name))
        left = {
            cluster: {name for name in names if (cluster, name) not in self.ghosts}
            for cluster, names in java["clusters"].items()
        }
        java["clusters"] = {cluster: names for cluster, names in left.items() if names}
        self.must_agree(java, ours, "106 after it")
        self.rows, self.clusters = ours["rows"], ours["clusters"]

    def addrs_of(self, name: str) -> dict[str, str]:
        row = self.rows.get(name)
        return dict(row["brokerAddrs"]) if row else {}

    def alive(self, cluster: str, addr: str) -> list[bool]:
        """Whether each server has live info of this broker."""
        ext = {"clusterName": cluster, "brokerAddr": addr, "brokerName": "any", "brokerId": "0"}
        return [bool(server.ask(322, ext, b"{}").body) for server in self.pair.servers]

    # steps: brokers

    def do_nothing(self, kind: str) -> None:
        pass

    def do_register(self, kind: str, **args: Any) -> None:
        process = args["process"]
        said, (cluster, name, broker_id, addr) = self.said[process], PROCESSES[process]
        said.counter += args["counter"]
        said.timestamp += args["timestamp"]
        said.state += args["state"]
        if args["topics"] is not None:
            said.topics = {
                topic: said.topics.get(topic, (4, 4, 6, 0)) for topic in range(TOPICS) if args["topics"] >> topic & 1
            }
        if args["queues"] is not None:
            queues, flag = args["queues"], args["flags"]
            said.topics = {
                topic: (4 + queues, 4 + topic, PERMS[queues], (process + topic) % 4 if flag else 0)
                for topic in said.topics
            }
        picked = {
            key: default if args[key] is None else args[key]
            for key, default in (("cluster", cluster), ("name", name), ("id", broker_id), ("addr", addr))
        }
        body = self.register_body(said, args, self.name(picked["name"]))
        crc = {"right": str(zlib.crc32(body) & 0x7FFFFFFF), "wrong": "12345", "absent": None}.get(
            args["crc"], args["crc"]
        )
        bad_id = args["bad_id"]
        ext: dict[str, str | None] = {
            "brokerId": str(picked["id"]) if bad_id is None else None if bad_id == "missing" else bad_id,
            "bodyCrc32": crc,
            "clusterName": self.cluster(picked["cluster"]),
            "brokerAddr": self.addr(picked["addr"]),
            "haServerAddr": {"missing": None, "": ""}.get(args["ha"], f"{self.prefix}h{picked['addr']}:10912"),
            "compressed": "true" if args["form"] == "zlib" else "false",
            "brokerName": self.name(picked["name"]),
            "enableActingMaster": args["acting"],
            "heartbeatTimeoutMillis": args["timeout"],
            "__ZONE_NAME": None if args["zone"] is None else ZONES[args["zone"]],
        }
        given = {key: value for key, value in ext.items() if value is not None}
        form, version = args["form"], args["version"]
        if form == "null body":
            form, version = "null wrapper", 36  # which then is the whole body
        # Java trips over a null where it would count the topics: to be treated as a single topic is.
        topics = 1 if form in ("null wrapper", "null table") else len(said.topics)
        if form in ("absent", "{}", "broken"):
            topics = 0
        state = 0 if form in ("absent", "{}", "no version", "null wrapper", "broken") else said.state
        good = bad_id is None and form != "broken" and args["crc"] != "wrong"
        about = {"topics": topics, "state": state, "form": form, "good": good, "binary": args["binary"],
                 "told": (self.seen_version(said), self.queue_data_in(said, args, form, version))}  # fmt: skip
        said.last = (given, body, version, about)
        self.send_registration(process, oneway=args["oneway"])

    def queue_data_in(
        self, said: Said, args: dict[str, Any], form: str, version: int
    ) -> dict[Any, tuple[int, int, int, int]]:
        """What a registration says about each topic, as its body carries it, and besides: one entry each."""
        queue_data: dict[Any, tuple[int, int, int, int]] = dict(said.topics)
        if form == "zlib":  # its lines have no topicSysFlag
            queue_data = {topic: (read, write, perm, 0) for topic, (read, write, perm, _) in said.topics.items()}
        if args["static"] is not None and (form != "zlib" or version >= 413):
            queue_data["static", args["static"]] = (0, 0, 0, 0)
        queue_data["acting",] = (str(args["acting"]).lower() == "true", 0, 0, 0)
        return queue_data

    def seen_version(self, said: Said) -> dict[str, int]:
        """The data version as the NameServer sees it: 4.8 knows no stateVersion."""
        version: dict[str, int] = said.version()
        return version | {"stateVersion": 0} if self.as_48 else version

    def do_resend(self, kind: str, process: int, oneway: bool | None) -> None:
        if self.said[process].last is not None:
            self.send_registration(process, oneway=oneway)

    def send_registration(self, process: int, *, oneway: bool | None) -> None:
        last = self.said[process].last
        assert last is not None
        ext, body, version, about = last
        cluster, name, addr = ext["clusterName"], ext["brokerName"], ext["brokerAddr"]
        row = self.rows.get(name)
        holder = self.addrs_of(name).get(ext.get("brokerId", ""))
        refused_if_new = about["topics"] == 1 and holder is None and not self.as_48
        null_wrapper = about["form"] == "null wrapper"
        if null_wrapper and (
            holder != addr or name not in self.clusters.get(cluster, ()) if self.as_48 else holder not in (None, addr)
        ):
            self.step_aside("null wrapper")
            return
        told_version, told_topics = about["told"]
        same_version, told_before, last = self.told.get(self.who(cluster, addr), (None, {}, None))
        takes_back = holder not in (None, addr) and last != (ext, body, version, about["binary"])
        if same_version == told_version and (
            takes_back or any(told_before.get(topic) != queue_data for topic, queue_data in told_topics.items())
        ):
            self.step_aside("D33")
            return
        refused = refused_if_new or self.holder_is_newer(cluster, addr, holder, about["state"])
        oneway = oneway and not refused and about["good"]
        if refused and row is not None:
            acting = ext.get("enableActingMaster", "").lower() == "true"
            before = (row["enableActingMaster"], row.get("zoneName"), True, False)
            zone = ext.get("__ZONE_NAME")
            zone = zone or (None if about["binary"] else zone)  # an empty value of a binary header is an absent one
            after = (acting, zone, name in self.clusters.get(cluster, ()))
            if before != (*after, addr in self.addrs_of(name).values()):
                self.step_aside("D16" if refused_if_new else "D16.1")
                return
        line = self.line(process)
        java, ours = self.exchange(
            103, dict(ext), body, line=line, oneway=oneway, version=version, binary=about["binary"], edit=self.mine
        )
        if refused_if_new and row is None:
            # Java keeps an empty row.
            self.pair.java.unregister(cluster, name, f"{self.prefix}nobody:1")
            self.pair.java.fence_unregister()
            self.step_aside("D16")
        if oneway:
            self.wait_for_oneway(line, cluster, addr)
        self.must_agree(java, ours, f"103 {ext} version={version} {body[:600]!r}")
        if not refused and java.get("code", 0) == 0 and not (null_wrapper and self.as_48):
            self.owner[self.who(cluster, addr)] = line
            self.left_in_row.discard(self.who(cluster, addr))
            if about["form"] in ("json", "zlib", "bare keys", "null table"):
                before = told_before if same_version == told_version else {}
                # of a null table only the DataVersion is kept
                registered = {} if about["form"] == "null table" else told_topics
                self.told[self.who(cluster, addr)] = (
                    told_version, before | registered, (dict(ext), body, version, about["binary"]),
                )  # fmt: skip
        self.compare_rows(removal=False)

    def holder_is_newer(self, cluster: str, addr: str, holder: str | None, state: int) -> bool:
        """Whether the registration is refused for the stateVersion of who has the id."""
        if holder is None or holder == addr or self.as_48:
            return False
        ext = {"clusterName": cluster, "brokerAddr": holder, "brokerName": "any", "brokerId": "0"}
        kept = self.pair.ours.ask(322, ext).body
        return bool(kept) and int(parse_json(kept)["stateVersion"]) > state

    def register_body(self, said: Said, args: dict[str, Any], name: str) -> bytes:
        form = args["form"]
        if form == "absent":
            return b""
        if form == "{}":
            return b"{}"
        if form == "broken":
            return b'{"topicConfigSerializeWrapper":{"dataVersion":{'
        if form == "null body":
            return b"null"
        if form == "null wrapper":
            return b'{"filterServerList":[],"topicConfigSerializeWrapper":null}'
        filters = {
            "absent": None, "[]": [], "null": None,
            "1": [f"{self.prefix}f1:1"], "2": [f"{self.prefix}f2:1", f"{self.prefix}f1:1"],
        }[args["filters"]]  # fmt: skip
        if form == "zlib":
            return self.zlib_body(said, filters, args, name)
        table: dict[str, Any] | None = {
            self.topic(topic): {
                "order": False, "perm": perm, "readQueueNums": read, "topicFilterType": "SINGLE_TAG",
                "topicName": self.topic(topic), "topicSysFlag": flag, "writeQueueNums": write,
            }
            for topic, (read, write, perm, flag) in said.topics.items()
        }  # fmt: skip
        wrapper: dict[str, Any] = {"dataVersion": said.version(), "topicConfigTable": table}
        if form == "no version":
            del wrapper["dataVersion"]
        elif form == "null table":
            wrapper["topicConfigTable"] = None
        if args["static"] is not None:
            wrapper["topicQueueMappingInfoMap"] = {self.topic(args["static"]): self.mapping(args["static"], said, name)}
        whole = {"filterServerList": filters, "topicConfigSerializeWrapper": wrapper}
        if args["filters"] == "absent":
            del whole["filterServerList"]
        text = json.dumps(whole, separators=(",", ":"))
        if form == "bare keys":
            text = text.replace('{"0":0,"1":1}', "{0:0,1:1}")
        return text.encode()

    def mapping(self, topic: int, said: Said, name: str) -> dict[str, Any]:
        return {
            "bname": name, "currIdMap": {"0": 0, "1": 1}, "dirty": False, "epoch": said.counter,
            "scope": "__global__", "topic": self.topic(topic), "totalQueues": 2,
        }  # fmt: skip

    def zlib_body(self, said: Said, filters: list[str] | None, args: dict[str, Any], name: str) -> bytes:
        def with_length(data: bytes) -> bytes:
            return len(data).to_bytes(4, "big") + data

        parts = [with_length(json.dumps(said.version()).encode()), len(said.topics).to_bytes(4, "big")]
        for topic, (read, write, perm, _) in said.topics.items():
            parts.append(with_length(f"{self.topic(topic)} {read} {write} {perm} SINGLE_TAG".encode()))
        parts.append(with_length(json.dumps(filters or []).encode()))
        if args["version"] >= 413:
            mappings = [] if args["static"] is None else [self.mapping(args["static"], said, name)]
            parts.append(len(mappings).to_bytes(4, "big"))
            parts += [with_length(json.dumps(mapping).encode()) for mapping in mappings]
        return zlib.compress(b"".join(parts))

    def do_unregister(self, kind: str, process: int, oneway: bool | None, binary: bool | None, **given: Any) -> None:
        identity = dict(zip(("cluster", "name", "id", "addr"), PROCESSES[process], strict=True))
        picked = {key: identity[key] if given[key] is None else given[key] for key in identity}
        picked = {key: None if value == "missing" else value for key, value in picked.items()}
        cluster, name, addr = self.cluster(picked["cluster"]), self.name(picked["name"]), self.addr(picked["addr"])
        broker_id = None if picked["id"] is None else str(picked["id"])
        row = self.rows.get(name) if name else None
        hit = row is not None and cluster and picked["id"] not in (None, "x") and addr in row["brokerAddrs"].values()
        half = broker_id is None or broker_id == "x" or not name
        if half and not self.as_48 and cluster and addr and any(self.alive(cluster, addr)):
            self.step_aside("D5.1")
            return
        line = self.line(process)
        java, ours = self.exchange(
            104,
            {"brokerId": broker_id, "clusterName": cluster, "brokerAddr": addr, "brokerName": name},
            line=line, oneway=oneway, binary=binary,
        )  # fmt: skip
        self.must_agree(java, ours, "104")
        if oneway:
            self.wait_for_oneway(line, self.cluster(0), self.addr(0))
        self.pair.java.fence_unregister()
        for other, names in self.clusters.items():
            if (
                hit
                and not self.as_48
                and name in names
                and other != cluster
                and self.alive(other, addr) == [True, False]
            ):
                self.pair.java.unregister(other, f"{self.prefix}nobody", addr)
                self.step_aside("D4 cluster")
        self.pair.java.fence_unregister()
        self.compare_rows(removal=True)
        if cluster and any(addr in row["brokerAddrs"].values() for row in self.rows.values()):
            self.left_in_row.add(self.who(cluster, addr))

    def wait_for_oneway(self, line: Line, cluster: str, addr: str) -> None:
        """Bounded: what does not become equal shows in the comparison that follows."""
        deadline = time.monotonic() + 0.5
        ext: dict[str, str | None] = {"clusterName": cluster, "brokerAddr": addr, "brokerName": "any", "brokerId": "0"}
        for asked in range(1_000):
            if time.monotonic() > deadline:
                return
            java, ours = self.exchange(322, ext, b"{}", line=line, edit=normal.without_clock)
            # Java's pool has taken the request by then, if it ever will without a further sign.
            if asked > ROUND_TRIPS and java == ours and self.cluster_info(0)["rows"] == self.cluster_info(1)["rows"]:
                return

    def wait_for_rows(self) -> None:
        """Connections of different threads of Java may overtake each other. Bounded, as above."""
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline and self.cluster_info(0)["rows"] != self.cluster_info(1)["rows"]:
            time.sleep(0.005)

    def do_close(self, kind: str, process: int) -> None:
        if process in self.lines and self.close(self.lines[process]):
            del self.lines[process]

    def do_reopen(self, kind: str, process: int) -> None:
        if process in self.lines:
            self.old.setdefault(process, []).append(self.lines.pop(process))

    def do_close_old(self, kind: str, process: int) -> None:
        if self.old.get(process) and self.close(self.old[process][0]):
            self.old[process].pop(0)

    def close(self, line: Line) -> bool:
        """False: what Java would do with it is one of the deliberate differences."""
        owned = {who for who, owner in self.owner.items() if owner is line}
        alive = {who for who in owned if any(self.alive(*who))}
        places = [(who, row) for who in owned for row in self.rows.values() if who[1] in row["brokerAddrs"].values()]
        addrs = {addr for _, addr in owned}
        elsewhere = {
            who
            for who in self.owner
            if who not in owned and who[1] in addrs and (who in self.left_in_row or any(self.alive(*who)))
        }
        reason = None
        if len(alive) > 1:
            reason = "D2"
        elif elsewhere:
            reason = "D3 two clusters"
        elif alive and not places and not self.as_48:
            reason = "D3.2"
        elif len({row["brokerName"] for _, row in places}) > 1 or any(who not in alive for who, _ in places):
            reason = "D3.1"
        elif not self.as_48 and any(row["cluster"] != next(iter(alive))[0] for _, row in places):
            reason = "D3"
        if reason:
            self.step_aside(reason)
            return False
        self.pair.sent["close"] += 1
        line.hang_up()
        for server in self.pair.servers:
            server.fence_close()
        self.wait_for_rows()
        self.compare_rows(removal=True)
        return True

    def do_heartbeat(
        self, kind: str, process: int, binary: bool | None, cluster: Any, addr: Any, oneway: bool | None
    ) -> None:
        ext = self._of_broker(process, cluster, addr)
        self.same_where_known(904, ext, line=self.line(process), binary=binary, oneway=oneway)

    def _of_broker(self, process: int, cluster: Any, addr: Any) -> dict[str, str | None]:
        own_cluster, name, _, own_addr = PROCESSES[process]
        cluster = own_cluster if cluster is None else cluster
        addr = own_addr if addr is None else addr
        return {
            "clusterName": None if cluster == "missing" else self.cluster(cluster),
            "brokerAddr": None if addr == "missing" else self.addr(addr),
            "brokerName": self.name(name),
        }

    def do_query_data_version(
        self,
        kind: str,
        process: int,
        binary: bool | None,
        cluster: Any,
        addr: Any,
        oneway: bool | None,
        id: Any,
        body: str,
    ) -> None:
        ext = self._of_broker(process, cluster, addr)
        ext["brokerId"] = None if id == "missing" else str(PROCESSES[process][2] if id is None else id)
        ids = {n: one for n, one in self.addrs_of(ext.get("brokerName")).items() if one == ext.get("brokerAddr")}
        has_new_role = (ext["brokerId"] or "").isdecimal() and ids and ext["brokerId"] not in ids
        if has_new_role and self.beside_java:
            self.step_aside("D35")
            return
        version = self.said[process].version()
        changed = {"counter": "counter", "timestamp": "timestamp", "state": "stateVersion"}.get(body)
        if changed:
            version[changed] += 1
        if body == "no state":
            del version["stateVersion"]
        data = {"absent": b"", "{}": b"{}", "null": b"null", "broken": b'{"counter":'}.get(
            body, json.dumps(version).encode()
        )
        self.same(322, ext, data, line=self.line(process), binary=binary, oneway=oneway, edit=normal.without_clock)

    # steps: everybody else

    def do_route(
        self, kind: str, topic: Any, binary: bool | None, version: int, standard: Any, zone_mode: Any, zone_name: Any
    ) -> None:
        ext = {
            "topic": self.topic(topic),
            "acceptStandardJsonOnly": standard,
            "__ZONE_MODE": zone_mode,
            "__ZONE_NAME": zone_name,
        }
        self.same_route(ext, version=version, binary=binary)

    def same_route(self, ext: dict[str, str | None], **how: Any) -> None:
        java, ours = self.exchange(105, ext, **how)
        if java["body"] and ours["body"] and java["body"] != ours["body"]:
            rows_of: dict[str, list[str]] = {}
            for row in self.rows.values():
                for addr in row["brokerAddrs"].values():
                    rows_of.setdefault(addr, []).append(row["cluster"])
            for addr, clusters in rows_of.items():
                if len(set(clusters)) > 1 and not self.as_48:
                    self.step_aside("D7 filters")
                    for shape in (java, ours):
                        shape["body"]["filterServerTable"].pop(addr, None)
        self.must_agree(java, ours, f"105 {ext}")

    def do_plain(self, kind: str, binary: bool | None = None) -> None:
        code = PLAIN_CODES[kind]
        if code == 106:
            self.compare_rows(removal=False)
            return
        java, ours = self.exchange(code, binary=binary, edit=self.mine)
        if code == 304:
            self._settle_system_topics(java, ours)
        elif code > 304:
            self._settle_flags(java, ours)
        self.must_agree(java, ours, str(code))

    def _settle_system_topics(self, java: dict[str, Any], ours: dict[str, Any]) -> None:
        for server, shape in zip(self.pair.servers, (java, ours), strict=True):
            body = shape["body"]
            rows = server.tables()["brokerAddrTable"].values()
            addrs = {addr for row in rows for addr in row["brokerAddrs"].values()}
            if body.get("brokerAddr") in addrs:
                body["brokerAddr"] = "(some broker's)"  # D7 address
        ghosts = {name for ghost in self.ghosts for name in ghost}
        listed = set(ours["body"]["topicList"])
        java["body"]["topicList"] = [name for name in java["body"]["topicList"] if name in listed or name not in ghosts]

    def _settle_flags(self, java: dict[str, Any], ours: dict[str, Any]) -> None:
        lists = java["body"]["topicList"], ours["body"]["topicList"]
        for topic in set(lists[0]) ^ set(lists[1]):
            route = self.exchange(105, {"topic": topic})[0]["body"]
            if route and len({data.get("topicSysFlag", data.get("topicSynFlag")) for data in route["queueDatas"]}) > 1:
                self.step_aside("D7 flags")
                for names in lists:
                    if topic in names:
                        names.remove(topic)

    def do_member_group(self, kind: str, name: Any, cluster: Any, binary: bool | None) -> None:
        self.same_where_known(901, {"clusterName": self.cluster(cluster), "brokerName": self.name(name)}, binary=binary)

    def do_wipe_write_perm(self, kind: str, name: Any, binary: bool | None) -> None:
        self.same(205, {"brokerName": self.name(name)}, binary=binary)

    def do_add_write_perm(self, kind: str, name: Any, binary: bool | None) -> None:
        self.same_where_known(327, {"brokerName": self.name(name)}, binary=binary)

    def do_delete_topic(self, kind: str, topic: Any, cluster: Any, binary: bool | None) -> None:
        if not self.as_48 and cluster is not None and any(self.ghost_names(self.cluster(cluster))):
            self.step_aside("D4 ghosts")
            return
        self.same(216, {"topic": self.topic(topic), "clusterName": self.cluster(cluster)}, binary=binary)

    def ghost_names(self, cluster: str) -> Iterable[str]:
        """Names that only Java has in this cluster, and that live elsewhere."""
        return (name for of, name in self.ghosts if of == cluster and name in self.rows)

    def do_register_topic(
        self, kind: str, topic: Any, binary: bool | None, names: list[int], queues: int, body: str | None
    ) -> None:
        if not self.topic(topic) and body is None:
            return  # D9
        datas = [
            {"brokerName": self.name(name), "perm": PERMS[queues], "readQueueNums": 2 + queues, "topicSysFlag": 0,
             "writeQueueNums": 2}
            for name in names
        ]  # fmt: skip
        whole = {"brokerDatas": [], "filterServerTable": {}, "queueDatas": datas}
        data = {"absent": b"", "{}": b"{}", "null": b"null", "broken": b'{"queueDatas":['}.get(
            body or "", json.dumps(whole).encode()
        )
        self.same_where_known(217, {"topic": self.topic(topic)}, data, binary=binary)

    def do_topics_of_cluster(self, kind: str, cluster: Any, binary: bool | None) -> None:
        java, ours = self.exchange(224, {"cluster": self.cluster(cluster)}, binary=binary)
        ghosts = set(self.ghost_names(self.cluster(cluster)))
        if ghosts:
            self.step_aside("D4 ghosts")
            names = java["body"]["topicList"]
            for topic in set(names) - set(ours["body"]["topicList"]):
                route = self.exchange(105, {"topic": topic})[1]["body"]
                if route and ghosts & {data["brokerName"] for data in route["queueDatas"]}:
                    names.remove(topic)
        self.must_agree(java, ours, f"224 {cluster}")

    # steps: KV

    def _kv(self, namespace: Any, key: Any) -> dict[str, str | None]:
        return {
            "namespace": f"{self.prefix}n{namespace}" if isinstance(namespace, int) else namespace,
            "key": None if key is None else f"{self.prefix}k{key}",
        }

    def do_put_kv(self, kind: str, namespace: Any, key: Any, value: str | None, binary: bool | None) -> None:
        if self.as_48 and (namespace is None or key is None):
            self.step_aside("D9 KV")
            return
        self.same(100, {**self._kv(namespace, key), "value": value}, binary=binary)

    def do_get_kv(self, kind: str, namespace: Any, key: Any, binary: bool | None) -> None:
        self.same(101, self._kv(namespace, key), binary=binary)

    def do_delete_kv(self, kind: str, namespace: Any, key: Any, binary: bool | None) -> None:
        self.same(102, self._kv(namespace, key), binary=binary)

    def do_kv_of_namespace(self, kind: str, namespace: Any, key: Any, binary: bool | None) -> None:
        self.same(219, {"namespace": self._kv(namespace, key)["namespace"]}, binary=binary, edit=self.mine)

    def do_unknown_code(self, kind: str, code: int, binary: bool | None) -> None:
        self.same_where_known(code, {"topic": "any"}, binary=binary)

    # at the end

    def compare_tables(self) -> None:
        self.where = f"at the end ({self.where})"
        self.compare_rows(removal=False)
        for kind in PLAIN_CODES:
            self.do_plain(kind)
        for topic in range(TOPICS + 1):
            for version in (317, 479):
                self.same_route({"topic": self.topic(topic)}, version=version)
        for cluster in range(CLUSTERS):
            self.do_topics_of_cluster("", cluster, None)
            for addr in range(ADDRS):
                ext = {
                    "clusterName": self.cluster(cluster),
                    "brokerAddr": self.addr(addr),
                    "brokerName": "any",
                    "brokerId": "0",
                }
                self.same(322, dict(ext), b"{}", edit=normal.without_clock)
        for name in range(NAMES):
            self.do_member_group("", name, 0, None)
        for namespace in (*range(KV_NAMESPACES), "ORDER_TOPIC_CONFIG"):
            self.do_kv_of_namespace("", namespace, None, None)
            for key in range(KEYS):
                self.do_get_kv("", namespace, key, None)

    def clean_up(self) -> None:
        """Leave as little as possible to the sequences that follow."""
        for server, connection in zip(self.pair.servers, self.control.connections, strict=True):
            assert server.control is connection
            tables = server.tables()
            for name, row in tables["brokerAddrTable"].items():
                if not name.startswith(self.prefix):
                    continue
                for broker_id, addr in row["brokerAddrs"].items():
                    for cluster in {row["cluster"], self.cluster(0), self.cluster(1)}:
                        server.unregister(cluster, name, addr, str(broker_id))
            for key in range(KEYS):
                for namespace in (0, 1, "ORDER_TOPIC_CONFIG"):
                    ext = self._kv(namespace, key)
                    server.ask(102, {key: str(value) for key, value in ext.items()})
        for line in (*self.lines.values(), *(line for lines in self.old.values() for line in lines)):
            line.hang_up()
