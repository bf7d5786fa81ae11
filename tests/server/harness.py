"""Worker processes as the supervisor starts them, and a plain wire client, for tests."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mqregistry.config.settings import Settings
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.server.process.worker import Spec

from ..forked import Forked, worker
from ..waiting import PATIENT_MS


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    """The first true value of condition; fails with what was waited for."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.01)


class FrontEnd:
    """One front end of one worker process.

    command: what runs it in a new interpreter; else it is forked, and tells its status ten times as often.
    constants: of its modules, where it is forked (:func:`tests.forked.worker`).
    """

    def __init__(
        self, redis_url: str, namespace: str, *, front_end: str | None = None, fresh: bool = True,
        command: Sequence[str] | None = None, constants: Mapping[str, float] | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        given = {"redis": redis_url, "namespace": namespace, "bind_address": "127.0.0.1", "http_port": 0}
        self.settings = Settings(**{**given, "redis_timeout_ms": PATIENT_MS, **settings})
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.front_end = front_end or secrets.token_hex(8)
        self.command = command
        self._fresh = fresh  # for its first start
        self.constants = {"server.process.worker._STATUS_EVERY_S": 0.1, **(constants or {})}
        self._status_fd = -1
        try:
            self.start()
        except AssertionError:
            self.close()
            raise

    def start(self) -> None:
        """Start the worker; again, when it ended."""
        if self._status_fd >= 0:
            self._close_pipes()
        read_fd, write_fd = os.pipe()
        spec = Spec(self.settings, self.front_end, 0, self.listener.fileno(), write_fd, fresh=self._fresh)
        self._fresh = False
        # a file takes any amount of log; a full pipe would stop the worker until somebody polls
        self._log_file = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed with the worker)
        self._log_position = 0
        self.process = self._made(msgspec.json.encode(spec), write_fd)
        os.close(write_fd)
        os.set_blocking(read_fd, False)
        self._status_fd = read_fd
        self._status_text = b""
        self.log = ""
        self.status: dict[str, Any] = {}
        self.ready = False
        self.wait_until(lambda: self.ready, "the worker is ready")

    def _made(self, spec: bytes, status_fd: int) -> subprocess.Popen[bytes] | Forked:
        files = (self.listener.fileno(), status_fd)
        if self.command is None:
            with open(os.devnull, "r+b") as nothing:
                stdio = (nothing.fileno(), nothing.fileno(), self._log_file.fileno())
                return Forked(worker, [spec, self.constants], stdio=stdio, files=files)
        process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, pass_fds=files, stderr=self._log_file, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(spec)
        process.stdin.close()
        return process

    def poll(self) -> dict[str, Any]:
        """Read what the worker says; the newest status."""
        for _ in range(1000):
            readable, _, _ = select.select([self._status_fd], [], [], 0)
            data = os.read(self._status_fd, 65536) if readable else b""
            if not data:
                break
            *lines, self._status_text = (self._status_text + data).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["event"] == "status":
                    self.status = event | event["counters"] | event["gauges"]
                elif event["event"] == "ready":
                    self.ready = True
        text = os.pread(self._log_file.fileno(), 1 << 30, self._log_position)
        self._log_position += len(text)
        self.log += text.decode(errors="replace")
        return self.status

    def wait_until(self, condition: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
        def check() -> Any:
            self.poll()
            if self.process.poll() is not None and not condition():
                raise AssertionError(f"the worker ended with {self.process.returncode}:\n{self.log}")
            return condition()

        return wait_until(check, what, timeout_s)

    def counter(self, name: str) -> int:
        return int(self.poll().get("counters", {}).get(name, 0))

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.process.wait(60)
            self.poll()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.poll()
        self._close_pipes()
        self.listener.close()

    def _close_pipes(self) -> None:
        self._log_file.close()
        os.close(self._status_fd)

    def client(self, **options: Any) -> Client:
        return Client(self.port, **options)


class Client:
    """A blocking remoting client."""

    def __init__(self, port: int, *, version: int = 479, timeout_s: float = 20.0, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s, source_address=(host, 0))
        self.version = version
        self._reader = FrameReader()
        self._frames: list[bytes] = []
        self._opaque = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, flag: int = 0, **fields: Any
    ) -> int:
        self._opaque += 1
        command = Command(
            code=code, opaque=self._opaque, flag=flag, version=self.version, ext_fields=ext, body=body, **fields
        )
        self.socket.sendall(encode_command(command))
        return self._opaque

    def receive(self) -> Command | None:
        """The next frame; None when the server hung up."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames += self._reader.feed(data)
        return decode_command(self._frames.pop(0))

    def request(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **fields: Any) -> Command:
        opaque = self.send(code, ext, body, **fields)
        reply = self.receive()
        assert reply is not None, "the server hung up"
        assert reply.opaque == opaque
        return reply

    def closed(self) -> bool:
        """Whether the server hung up (reads, and drops, whatever comes before)."""
        try:
            while self.receive() is not None:
                pass
        except TimeoutError:
            return False
        return True

    # what brokers and clients ask

    def route(self, topic: str) -> Command:
        return self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})

    def register(self, broker: Broker, **changes: Any) -> Command:
        ext, body = broker.registration(**changes)
        return self.request(RequestCode.REGISTER_BROKER, ext, body)

    def falls_silent(self, broker: Broker) -> None:
        """Its last registration, after which it expires in a second.

        Until then it has the usual two minutes: a front end with a short brokerChannelExpiredTimeMs removes a broker,
        and closes this connection, whenever a busy machine lets it or the test wait that long.
        """
        broker.ext["heartbeatTimeoutMillis"] = "1000"
        ext, body = broker.registration()
        self.send(RequestCode.REGISTER_BROKER, ext, body)
        reply = self.receive()
        assert reply is None or reply.code == 0  # none: it expired before the answer was written


class Broker:
    """What a broker says of itself."""

    separators: tuple[str, str] | None = None  # (",", ":") writes bodies as Java does

    def __init__(
        self,
        name: str = "broker-a",
        addr: str = "127.0.0.1:10911",
        broker_id: int = 0,
        cluster: str = "c1",
        topics: dict[str, tuple[int, int, int]] | list[str] | None = None,
        counter: int = 1,
        **ext: str,
    ) -> None:
        self.name, self.addr, self.broker_id, self.cluster = name, addr, broker_id, cluster
        given = ["topic1", "topic2"] if topics is None else topics
        self.topics = given if isinstance(given, dict) else dict.fromkeys(given, (4, 4, 6))
        self.counter = counter
        self.ext = ext

    @property
    def who(self) -> str:
        return f"{self.cluster}|{self.addr}"

    def registration(self, **changes: Any) -> tuple[dict[str, str], bytes]:
        for key, value in changes.items():
            setattr(self, key, value)
        if isinstance(self.topics, list):
            self.topics = dict.fromkeys(self.topics, (4, 4, 6))
        table = {
            topic: {
                "topicName": topic, "readQueueNums": read, "writeQueueNums": write, "perm": perm,
                "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
            }
            for topic, (read, write, perm) in self.topics.items()
        }  # fmt: skip
        body = json.dumps(
            {
                "filterServerList": [],
                "topicConfigSerializeWrapper": {
                    "dataVersion": {"counter": self.counter, "stateVersion": 0, "timestamp": 1700000000000},
                    "topicConfigTable": table,
                },
            },
            separators=self.separators,
        ).encode()
        ext = {
            "brokerId": str(self.broker_id),
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            "clusterName": self.cluster,
            "brokerAddr": self.addr,
            "haServerAddr": self.addr.replace("109", "209"),
            "compressed": "false",
            "brokerName": self.name,
        }
        return ext | self.ext, body
