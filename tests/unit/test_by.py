"""What is said of who caused a change, and how people read it."""

from __future__ import annotations

import os
import pwd
import socket

import msgspec
import pytest

from mqregistry.events import by as module
from mqregistry.events.by import (
    ANONYMOUS,
    CERTIFICATE,
    CLI,
    DIRECT,
    SIGNATURE,
    SWEEPER,
    By,
    front_end_name,
    this_process,
)

WIRE = By(ANONYMOUS, peer="10.0.0.7:51234", front_end="ns1:9876")


@pytest.mark.parametrize(
    ("by", "text"),
    [
        (WIRE, "anonymous from 10.0.0.7:51234 at ns1:9876"),
        (By(SIGNATURE, "alice", "10.0.0.7:5", "10.0.0.2:443", "ns1:9876"),
         "alice (signature) from 10.0.0.7:5 via 10.0.0.2:443 at ns1:9876"),
        (By(CLI, "bob", "host1/4711"), "bob (cli) on host1/4711"),
        (By(DIRECT, "bob", "host1/4711", login="ops"), "bob (direct, Redis user ops) on host1/4711"),
        (By(SWEEPER, peer="host1/4711", front_end="ns1:9876"), "sweeper on host1/4711 at ns1:9876"),
        (By("telepathy"), "telepathy"),
        (By(CERTIFICATE, "bob (cli) on host1", "10.0.0.7:5"), '"bob (cli) on host1" (certificate) from 10.0.0.7:5'),
        (By(CERTIFICATE, 'a"\n\x1b[2J', "10.0.0.7:5"), '"a\\"\\n\\u001b[2J" (certificate) from 10.0.0.7:5'),
        (By(CERTIFICATE, "\u202eecila", "10.0.0.7:5"), '"\\u202eecila" (certificate) from 10.0.0.7:5'),
        (By("how\x1b[2J", "u"), "u (how\\x1b[2J)"),
    ],
)  # fmt: skip
def test_what_a_reader_sees(by, text):
    assert str(by) == text


def test_events_have_only_what_is_known():
    assert msgspec.json.decode(WIRE.encoded()) == {
        "how": "anonymous", "peer": "10.0.0.7:51234", "front_end": "ns1:9876",
    }  # fmt: skip
    assert msgspec.json.decode(WIRE.encoded(), type=By) == WIRE


def test_a_program_says_who_runs_it_and_where():
    assert this_process(CLI).peer == f"{socket.gethostname()}/{os.getpid()}"
    assert this_process(SWEEPER).user is None
    assert this_process(SWEEPER, front_end=front_end_name(9876)).front_end == f"{socket.gethostname()}:9876"


@pytest.fixture
def machine(monkeypatch):
    """What the operating system says."""
    module._os_user.cache_clear()
    module.host_name.cache_clear()
    monkeypatch.delenv("SUDO_USER", raising=False)
    yield monkeypatch
    module._os_user.cache_clear()
    module.host_name.cache_clear()


def test_user_is_that_of_the_operating_system_whatever_the_environment_says(machine):
    machine.setenv("USER", "somebody-else")
    assert this_process(DIRECT).user == pwd.getpwuid(os.getuid()).pw_name


def test_under_sudo_the_caller_counts(machine):
    machine.setenv("SUDO_USER", "alice")
    machine.setattr(os, "getuid", lambda: 0)
    assert this_process(CLI).user == "alice"


def test_only_root_may_be_a_caller_under_sudo(machine):
    machine.setenv("SUDO_USER", "alice")
    machine.setattr(os, "getuid", lambda: 4242)
    assert this_process(CLI).user == "uid 4242"


def test_a_host_name_that_is_no_text_can_be_told(machine):
    machine.setattr(socket, "gethostname", lambda: "h\udcff\n" + "x" * 300)
    told = this_process(SWEEPER).encoded()
    assert len(told) < 320
    assert b"\\\\udcff\\\\n" in told
