"""A folder, front ends and sweepers for the tests that break a Redis."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import pytest

from ..server.harness import FrontEnd
from .service import SweeperProcess


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        yield Path(name)


@pytest.fixture
def own_namespace():
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
def front_end_with(own_namespace):
    """Starts front ends with given settings, each one worker process, all in one namespace.

    They tell their status as rarely as always: some of what a failover takes is over only after it says "fresh".
    """
    started, always = [], {"server.process.worker._STATUS_EVERY_S": 1.0}

    def start(url, *, namespace=own_namespace, **settings):
        front_end = FrontEnd(url, namespace, constants=always, **settings)
        started.append(front_end)
        return front_end

    yield start
    for front_end in started:
        front_end.close()


@pytest.fixture
def sweeper_for(own_namespace):
    """Starts sweepers as processes of their own."""
    started = []

    def start(url, *, namespace=own_namespace):
        sweeper = SweeperProcess(url, namespace)
        started.append(sweeper)
        return sweeper

    yield start
    for sweeper in started:
        sweeper.close()
