from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

from bench.load import plan, tool
from tests.bench.scripted import ScriptedServer

TOPICS = [f"topic-{number}" for number in range(20)]


@pytest.fixture(scope="session")
def programs():
    """The C programs, compiled."""
    try:
        return {program: tool.build(program) for program in ("loadgen", "echo")}
    except tool.NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def home():
    """A short folder: unix sockets have short names."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        yield Path(folder)


@pytest.fixture
def stack():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def load(programs, tmp_path, stack):
    """Starts a scripted server and a generator that loads it."""

    def start(answers, registrations=None):
        server = ScriptedServer(answers)
        stack.callback(server.close)
        plan.write_lookups(tmp_path / "lookups", [plan.lookup(topic, 479) for topic in TOPICS])
        generator = tool.LoadGenerator(server.port, tmp_path / "lookups", registrations)
        return server, stack.enter_context(generator)

    return start
