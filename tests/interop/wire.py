"""A name server asked over the wire: just enough of RocketMQ's remoting for these tests, and nothing of ours.

It must not share code with the project, or a mistake made on both sides would go unseen.
"""

import json
import re
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Any, Self

GET_ROUTE_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
GET_BROKER_MEMBER_GROUP = 901
SUCCESS = 0
TOPIC_NOT_EXIST = 17

# That of a 4.8.0 client: old enough to be served to the end by a server that drains.
CLIENT_VERSION = 373

_STRING_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(\s*:)')


def parse_json(text: str | bytes) -> Any:
    """JSON in which keys may be bare integers, as Java writes maps from ids: {0:"127.0.0.1:10911"}."""
    if isinstance(text, bytes):
        text = text.decode()
    quoted = _STRING_OR_BARE_KEY.sub(lambda found: f'{found[1]}"{found[2]}"{found[3]}' if found[2] else found[0], text)
    return json.loads(quoted)


class Refused(Exception):
    """The server answered with a code that the question does not provide for."""


class WireClient:
    """One blocking connection to a name server."""

    def __init__(self, port: int, timeout_s: float = 5.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def request(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send one request and wait for its answer: header and body."""
        self._opaque += 1
        fields = {
            "code": code,
            "flag": 0,
            "language": "PYTHON",
            "opaque": self._opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": CLIENT_VERSION,
        }
        if ext is not None:
            fields["extFields"] = ext
        header = json.dumps(fields).encode()
        # Length of all that follows; then one byte of header form (0 = JSON) and three of header length.
        self._socket.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        while True:
            length, form_and_size = struct.unpack(">iI", self._read(8))
            assert form_and_size >> 24 == 0, "an answer to a JSON header has a JSON header"
            rest = self._read(length - 4)
            size = form_and_size & 0xFF_FFFF
            answer = json.loads(rest[:size])
            if answer["opaque"] == self._opaque and answer["flag"] & 1:
                return answer, rest[size:]

    def route(self, topic: str) -> dict[str, Any] | None:
        """The topic's route, or None where the server says that there is no such topic."""
        answer, body = self.request(GET_ROUTE_BY_TOPIC, {"topic": topic})
        if answer["code"] == TOPIC_NOT_EXIST:
            return None
        if answer["code"] != SUCCESS:
            raise Refused(f"route of {topic}: {answer}")
        return dict(parse_json(body))

    def cluster_info(self) -> dict[str, Any]:
        answer, body = self.request(GET_BROKER_CLUSTER_INFO)
        if answer["code"] != SUCCESS:
            raise Refused(f"cluster info: {answer}")
        return dict(parse_json(body))

    def topics(self) -> set[str]:
        answer, body = self.request(GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if answer["code"] != SUCCESS:
            raise Refused(f"topic list: {answer}")
        return set(parse_json(body)["topicList"])

    def member_group(self, cluster: str, broker_name: str) -> dict[str, str]:
        """Id to address of the brokers of one name."""
        answer, body = self.request(GET_BROKER_MEMBER_GROUP, {"clusterName": cluster, "brokerName": broker_name})
        if answer["code"] != SUCCESS:
            raise Refused(f"member group of {broker_name}: {answer}")
        return dict(parse_json(body)["brokerMemberGroup"]["brokerAddrs"])

    def _read(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            chunk = self._socket.recv(size - len(chunks))
            if not chunk:
                raise ConnectionError("the server closed the connection")
            chunks += chunk
        return bytes(chunks)


def addresses(route: dict[str, Any] | None) -> set[str]:
    """Every broker address that a route names; none for a missing topic."""
    if route is None:
        return set()
    return {addr for data in route["brokerDatas"] for addr in data["brokerAddrs"].values()}


def route_addresses(port: int, topic: str) -> set[str]:
    """What the server at `port` now says about the topic, asked over a connection of its own."""
    with WireClient(port) as client:
        return addresses(client.route(topic))


def registered_addresses(port: int) -> set[str]:
    """Every broker address in the server's cluster information."""
    with WireClient(port) as client:
        table = client.cluster_info()["brokerAddrTable"]
    return {addr for row in table.values() for addr in row["brokerAddrs"].values()}


class RouteWatch:
    """Asks for a topic's route without pause while the block runs, and fails if one answer lacked the address."""

    def __init__(self, port: int, topic: str, addr: str, every_s: float = 0.01) -> None:
        self.asked = 0
        self._port, self._topic, self._addr, self._every_s = port, topic, addr, every_s
        self._wrong: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(10)
        if kind is None:
            assert not self._wrong, f"route of {self._topic} lost {len(self._wrong)} times: {self._wrong[:3]}"
            assert self.asked, "the watch asked nothing"

    def _run(self) -> None:
        start = time.monotonic()
        try:
            with WireClient(self._port) as client:
                while not self._stop.is_set():
                    got = addresses(client.route(self._topic))
                    self.asked += 1
                    if self._addr not in got:
                        self._wrong.append(f"{time.monotonic() - start:.2f} s: {sorted(got)}")
                    self._stop.wait(self._every_s)
        except (OSError, Refused) as error:
            self._wrong.append(f"{time.monotonic() - start:.2f} s: {error!r}")
