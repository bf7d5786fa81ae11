"""Streams against a whole `mqregistry serve`: it must answer or hang up, at once, and stay as it was."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path

import psutil
import redis

from bench.servers.wire import read_answer
from mqregistry.embedded import EmbeddedRedis
from mqregistry.errors import RemoteProtocolError
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from tests.hostile.script_times import ScriptTimes
from tests.server.harness import Broker
from tests.server.serving import free_ports

from .mutate import Stream

ANSWER_S = 20.0
"""Longer than this without an answer and without a close is a hang."""

MOST_SCRIPT_MS = 250.0
"""No script may keep Redis longer, whatever is sent."""

SENTINEL = 0x5EED_0000
# A broker that no stream knows of: it registers at every check, and must be found.
STEADY = Broker("steady-broker", "steady:10911", cluster="steady-cluster", topics=["steady-topic"] * 2 + ["other"])
COMPLAINT = re.compile(
    r"Traceback|Logging error|was never (?:awaited|retrieved)|request .+ of \S+ failed$|worker \d+ ended"
)


# Answered behind everything that was sent before: writes of one connection run one after the other.
LAST = encode_command(Command(code=102, opaque=SENTINEL, ext_fields={"namespace": "no", "key": "no"}))


class Wrong(AssertionError):
    """What a name server must not do, whatever it is sent."""


class Live:
    """One front end with a Redis of its own. Everything it says is read by a thread, or the pipe would fill."""

    def __init__(self, compat: str = "5.x") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mqfuzz")
        self._redis = EmbeddedRedis(Path(self._folder.name), extra=("--appendfsync", "no"))
        self._redis.start()
        (self.port,) = free_ports(1)
        environ = {key: value for key, value in os.environ.items() if not key.startswith("MQREGISTRY_")}
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "mqregistry", "serve", "--redis", self._redis.url, "--host", "127.0.0.1",
                "--port", str(self.port), "--http-port", "0", "--compat", compat,
                "--namespace", f"fuzz-{secrets.token_hex(4)}",
            ],
            env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.log: deque[str] = deque(maxlen=400)
        self.complaints: list[str] = []
        self.lines = 0
        self._booted = threading.Event()
        self._drain = threading.Thread(target=self._read_log, daemon=True)
        self._drain.start()
        if not self._booted.wait(30):
            self.close()
            raise AssertionError("the front end did not start:\n" + "\n".join(self.log))
        self.worker = psutil.Process(self.process.pid).children()[0]
        self.control = self.connect()
        self.codes: Counter[int] = Counter()
        self.connections = self.answers = self.hung_up = self.bytes = 0
        self.slowest_s = self.slowest_control_s = self.slowest_script_ms = 0.0
        assert self._redis.pid is not None
        self._script_times = ScriptTimes(self._redis.url, self._redis.pid)
        self.slowest: bytes = b""

    def _read_log(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            self.lines += 1
            self.log.append(line[:2000])
            if "boot success" in line:
                self._booted.set()
            elif COMPLAINT.search(line):
                self.complaints.append(line[:500])

    def connect(self) -> socket.socket:
        try:
            opened = socket.create_connection(("127.0.0.1", self.port), ANSWER_S)
        except OSError as error:
            raise Wrong(f"nobody can connect: {error!r}\n" + "\n".join(list(self.log)[-60:])) from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def try_stream(self, stream: Stream) -> None:
        """Send it over a connection of its own.

        Raises:
            Wrong: neither answered nor closed in time, an answer that is none, or a complaint in the log.
        """
        self.connections += 1
        self.bytes += len(stream.data)
        started = time.perf_counter()
        owed = answers_owed(stream.data) if stream.framed else None
        answered: list[Command] = []
        with self.connect() as connection:
            try:
                connection.sendall(stream.data)
                if stream.framed:
                    connection.sendall(LAST)
                else:
                    connection.shutdown(socket.SHUT_WR)
                closed = self._read_answers(connection, answered, until_sentinel=stream.framed)
                if owed is not None and Counter(answer.opaque for answer in answered) != owed:
                    raise Wrong(f"owed {owed}, answered {answered}")
            except TimeoutError:
                raise Wrong(f"neither an answer nor a close in {ANSWER_S} s") from None
            except OSError:  # it hung up while this was still being sent
                closed = True
        self.hung_up += closed and stream.framed
        took = time.perf_counter() - started
        if took > self.slowest_s:
            self.slowest_s, self.slowest = took, stream.data
        if self.complaints:
            raise Wrong("it complained:\n" + "\n".join(list(self.log)[-60:]))

    def _read_answers(self, connection: socket.socket, answered: list[Command], *, until_sentinel: bool) -> bool:
        """Read to the sentinel's answer (False), or to the end (True)."""
        reader = FrameReader()
        while data := connection.recv(1 << 18):
            for frame in reader.feed(data):
                try:
                    answer = decode_command(frame)
                except RemoteProtocolError as error:
                    raise Wrong(f"an answer that is none: {error}: {frame[:200]!r}") from error
                self.answers += 1
                if not answer.is_response or answer.opaque is None:
                    raise Wrong(f"an answer that is none: {answer}")
                self.codes[answer.code] += 1
                if until_sentinel and answer.opaque == SENTINEL:
                    return False
                answered.append(answer)
            if reader.error is not None and data[:1] != b"\x15":  # a TLS alert answers what began like TLS
                raise Wrong(f"an answer that is none: {data[:200]!r}")
        return True

    def check(self) -> float:
        """Another client is answered as ever, and the process is the same. How long that took, in seconds.

        Raises:
            Wrong: not.
        """
        started = time.perf_counter()
        ext, body = STEADY.registration()
        try:
            for command in (
                Command(code=103, opaque=1, ext_fields=ext, body=body, version=479),
                Command(code=105, opaque=SENTINEL, ext_fields={"topic": "steady-topic"}, version=479),
            ):
                self.control.sendall(encode_command(command))
                found = read_answer(self.control)
                if found.code != 0:
                    raise Wrong(f"another client's {command.code} is answered {found.code}: {found.remark}")
            if b"steady:10911" not in found.body:
                raise Wrong(f"the route of a broker that beats is {found.body!r}")
        except OSError as error:
            raise Wrong(f"another client is not answered: {error!r}\n" + "\n".join(list(self.log)[-60:])) from error
        took = time.perf_counter() - started
        self.slowest_control_s = max(self.slowest_control_s, took)
        if self.process.poll() is not None or not self.worker.is_running():
            raise Wrong("the process ended:\n" + "\n".join(list(self.log)[-60:]))
        return took

    def check_scripts(self) -> None:
        """Look at the scripts that ran since the last look.

        Raises:
            Wrong: one kept Redis too long.
        """
        slowest = self._script_times.look()
        self.slowest_script_ms = max(self.slowest_script_ms, slowest.took_ms)
        if slowest.took_ms > MOST_SCRIPT_MS:
            raise Wrong(f"a script took {slowest.took_ms:.0f} ms, at most {MOST_SCRIPT_MS:.0f}: {slowest.command!r}")

    def rss(self) -> int:
        """Bytes of the worker process."""
        return int(self.worker.memory_info().rss)

    def redis_bytes(self) -> int:
        client = redis.Redis.from_url(self._redis.url, protocol=2)
        try:
            return int(client.info("memory")["used_memory"])
        finally:
            client.close()

    def close(self) -> None:
        if hasattr(self, "control"):
            self.control.close()
        self.process.terminate()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self._drain.join(10)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self._redis.stop()
            self._folder.cleanup()


def answers_owed(data: bytes) -> Counter[int] | None:
    """The opaques of the answers that this stream must bring; None: it ends in a close, or one has no opaque."""
    owed: Counter[int] = Counter()
    for frame in FrameReader().feed(data):
        try:
            command = decode_command(frame)
        except RemoteProtocolError:
            return None
        if not command.is_response and not command.is_oneway:
            if command.opaque is None:
                return None
            owed[command.opaque] += 1
    return owed
