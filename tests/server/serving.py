"""A whole `mqregistry serve` as a process, and what its HTTP port says."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import psutil
from prometheus_client.parser import text_string_to_metric_families

from bench.servers.processes import free_port
from mqregistry.server.process.metrics import PREFIX

from ..forked import Forked, command
from ..waiting import PATIENT_MS
from .harness import Client, wait_until


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


def get(port: int, path: str, *, method: str = "GET", timeout_s: float = 20.0) -> Answer:
    """One HTTP request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers.get("Content-Type", ""), answer.read())


def free_ports(count: int) -> list[int]:
    """So many different ports that nobody listens on."""
    return [free_port() for _ in range(count)]


class Metrics(dict):
    """The samples of one /metrics page: `name` or `name{label value}` without our prefix -> value."""

    def __init__(self, page: str) -> None:
        super().__init__()
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                name = sample.name.removeprefix(PREFIX)
                labels = ",".join(sample.labels.values())
                key = f"{name}{{{labels}}}" if labels else name
                assert key not in self, f"{key} stands on the page twice"
                self[key] = sample.value


class Serving:
    """`mqregistry serve` with settings by environment; `booted=False` does not wait for it to answer.

    forked: by :mod:`tests.forked`; else it is a new interpreter, of which /proc shows what it was started with.
    stderr_fd: where a forked one logs, if not to its log file.
    """

    process: subprocess.Popen[bytes] | Forked

    def __init__(
        self, folder: Path, redis_url: str, *, booted: bool = True, forked: bool = True, stderr_fd: int | None = None,
        **settings: object,
    ) -> None:  # fmt: skip
        self.port, self.http_port = free_ports(2)
        self.namespace = f"h-{secrets.token_hex(6)}"
        self.log_file = folder / f"serve-{self.port}.log"
        given = {
            "redis": redis_url, "host": "127.0.0.1", "port": self.port, "http_port": self.http_port,
            "namespace": self.namespace, "fresh": "true", "redis_timeout_ms": PATIENT_MS, **settings,
        }  # fmt: skip
        self.port, self.http_port, self.namespace = given["port"], given["http_port"], given["namespace"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
        environ |= {f"MQREGISTRY_{name.upper()}": str(value) for name, value in given.items()}
        with open(os.devnull, "rb") as nothing, self.log_file.open("wb") as log:
            if forked:
                stdio = (nothing.fileno(), log.fileno(), log.fileno() if stderr_fd is None else stderr_fd)
                self.process = Forked(command, ["serve"], stdio=stdio, env=environ)
            else:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "mqregistry", "serve"],
                    env=environ, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        if booted:
            self.wait_until(lambda: "boot success" in self.log, "it serves")

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait_until(self, condition, what: str, timeout_s: float = 60.0):
        def check():
            value = condition()
            if not value and self.process.poll() is not None:
                raise AssertionError(f"serve ended with {self.process.returncode}:\n{self.log}")
            return value

        return wait_until(check, what, timeout_s)

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def get(self, path: str, **options) -> Answer:
        return get(self.http_port, path, **options)

    def metrics(self) -> Metrics:
        answer = self.get("/metrics")
        assert answer.status == 200
        return Metrics(answer.body.decode())

    def readyz(self) -> tuple[int, list[str]]:
        answer = self.get("/readyz")
        told = json.loads(answer.body)
        assert told["ready"] == (answer.status == 200) == (not told["reasons"])
        return answer.status, told["reasons"]

    def client(self, **options) -> Client:
        return Client(self.port, **options)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(60)
            finally:
                self.process.kill()
