"""A real Spark standalone cluster on this machine: a master and two workers, each a process of its own, on loopback.

By hand: python -m tests.pipeline.standalone FOLDER; it prints --master, and ends with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyspark

from bench.servers.processes import free_port
from bench.servers.redis_servers import HOST
from mqregistry.embedded import die_with_parent
from mqregistry.pipeline.spark.java import find_java_home
from tests.server.harness import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
START_S = 120


class Standalone:
    """The cluster's address; ``env`` is what its processes were started with, for spark-submit too."""

    def __init__(self, folder: Path, java_options: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        port = free_port()
        self.master = f"spark://{HOST}:{port}"
        self.env = {
            **os.environ, "JAVA_HOME": str(find_java_home()[0]), "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": HOST,
            "JAVA_TOOL_OPTIONS": java_options,
        }  # fmt: skip
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self._start("master", "deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
            for number in range(WORKERS):
                name = f"worker{number}"
                self._start(
                    name, "deploy.worker.Worker", "--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g",
                    "--work-dir", str(folder / name), self.master,
                )  # fmt: skip
            wait_until(lambda: self.log("master").count("Registering worker") == WORKERS, "workers register", START_S)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.{kind}", *arguments]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    preexec_fn=die_with_parent,
                    env={**self.env, "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"},
                )
            )

    def log(self, name: str) -> str:
        """What a process said so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def executors(self) -> list[int]:
        """How many executors each worker has started."""
        return [len(list((self.folder / f"worker{number}").glob("app-*/*"))) for number in range(WORKERS)]

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@contextlib.contextmanager
def standalone(folder: Path, **options: str) -> Iterator[Standalone]:
    """A cluster for as long as the block runs."""
    cluster = Standalone(folder, **options)
    try:
        yield cluster
    finally:
        cluster.close()


if __name__ == "__main__":
    with standalone(Path(sys.argv[1])) as cluster, contextlib.suppress(KeyboardInterrupt):
        print(f"--master {cluster.master}", flush=True)
        threading.Event().wait()
