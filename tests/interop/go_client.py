"""The Go client of RocketMQ, built once from go/ with the modules that go.sum names."""

import os
import shutil
import subprocess
from pathlib import Path

from bench.servers.processes import Processes, on_leash
from bench.servers.rocketmq import FETCH_TIMEOUT_S, Unavailable, cache_folder, publish_once

from .rocketmq import SteeredClient, digest_of, with_credentials

SOURCES = Path(__file__).with_name("go")


def build() -> Path:
    """The driver, from the cache or built; raises Unavailable where that cannot be had."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise Unavailable("no go on PATH or in /usr/local/go/bin: it is at go.dev/dl")
    folder = cache_folder() / f"go-{digest_of(SOURCES.iterdir())}"

    def fill(partial: Path) -> None:
        try:
            done = subprocess.run(
                on_leash([go, "build", "-o", str(partial / "driver"), "."]),
                cwd=SOURCES,
                env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=FETCH_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"go did not build its client within {FETCH_TIMEOUT_S} s") from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["nothing"]
            # A module that cannot be had is this machine's affair, a driver that does not compile ours.
            assert not said[0].startswith("#"), done.stderr
            raise Unavailable(f"go cannot build its client: {said[-1]}")

    publish_once(folder, fill)
    return folder / "driver"


class GoClient(SteeredClient):
    """A producer and a push consumer of the Go client; it knows `send` and `counts`."""

    def __init__(
        self, processes: Processes, driver: Path, name_servers: str, topic: str,
        credentials: tuple[str, str] | None = None,
    ) -> None:  # fmt: skip
        home = processes.home("go-client")
        command = [str(driver), name_servers, topic, f"group_{topic}"]
        # Its library writes where HOME says.
        env = with_credentials(credentials) | {"HOME": str(home)}
        super().__init__(topic, processes.start(f"Go client of {topic}", command, home=home, env=env, steered=True))
