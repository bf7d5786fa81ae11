"""The blocking face: threads, forks, closing, Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading

import pytest

from mqregistry.client.sync_client import SyncClient
from mqregistry.errors import ClientClosed

from .threads import exit_code_of_fork


class Client:
    """An asynchronous client that notes what happens to it."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.notes: list[str] = []
        self.fails = fails
        self.began = threading.Event()
        self.listener = None

    async def __aenter__(self):
        if self.fails:
            raise self.fails
        self.task = asyncio.current_task()
        self.notes.append("entered")
        return self

    async def __aexit__(self, *_):
        assert asyncio.current_task() is self.task
        self.notes.append("left")

    async def add(self, one, *, other):
        await asyncio.sleep(0)
        return one + other

    async def fail(self):
        raise KeyError("mine")

    async def hang(self):
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.notes.append("cancelled")

    async def call_listener(self):
        self.listener()


class Face(SyncClient[Client]):
    def __init__(self, client: Client) -> None:
        super().__init__(client)

    def add(self, one, *, other):
        return self._call(self._client.add, one, other=other)

    def call(self, name):
        return self._call(getattr(self._client, name))


@pytest.fixture
def client():
    return Client()


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_calls_run_on_the_background_loop_and_bring_results_and_errors(client):
    with Face(client) as face:
        assert face.add(1, other=2) == 3
        with pytest.raises(KeyError, match="mine"):
            face.call("fail")
        assert client.notes == ["entered"]
    assert client.notes == ["entered", "left"]


def test_what_entering_raises_is_raised_and_nothing_is_left():
    with pytest.raises(OSError, match="no luck"), Face(Client(OSError("no luck"))):
        pass


def test_not_open_or_closed(client):
    face = Face(client)
    with pytest.raises(ClientClosed, match="this Face is not open"):
        face.add(1, other=2)
    face.open()
    with pytest.raises(RuntimeError):
        face.open()
    for _ in range(2):
        face.close()
        with pytest.raises(ClientClosed, match="this Face is not open"):
            face.add(1, other=2)
    never = Face(Client())
    never.close()


def test_many_threads_at_once(client):
    sums = []
    with Face(client) as face:
        threads = [
            threading.Thread(target=lambda k=k: sums.extend(face.add(k, other=i) for i in range(50))) for k in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(sums) == sorted(k + i for k in range(8) for i in range(50))


def test_closing_ends_calls_under_way(client):
    face, ended = Face(client).open(), []

    def call():
        with pytest.raises(ClientClosed):
            face.call("hang")
        ended.append(True)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert client.began.wait(10)
    face.close()
    for thread in threads:
        thread.join(10)
    assert len(ended) == 3
    assert client.notes[0] == "entered"
    assert "left" in client.notes


def test_calls_race_with_closing_and_none_hangs():
    for _ in range(30):
        face = Face(Client()).open()
        threads = [threading.Thread(target=call_until_closed, args=(face,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        face.close()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def call_until_closed(face):
    while True:
        try:
            face.add(1, other=1)
        except ClientClosed:
            return


def test_a_listener_that_calls_back_is_told_so_and_may_close(client):
    with Face(client) as face:
        client.listener = lambda: face.add(1, other=1)
        with pytest.raises(RuntimeError, match="a listener of Face must not call it"):
            face.call("call_listener")
        client.listener = face.close
        face.call("call_listener")
    assert client.notes == ["entered", "left"]


def test_within_a_running_loop(client):
    async def main():
        with Face(client) as face:
            return face.add(1, other=1)

    assert asyncio.run(main()) == 2


@pytest.fixture
def interruptible():
    """A shell starts background jobs with SIGINT ignored, and Python then leaves that so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_cancels_what_was_waited_for_only(client):
    def interrupt():
        client.began.wait(10)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with Face(client) as face:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            face.call("hang")
        thread.join()
        assert face.add(1, other=1) == 2
    assert client.notes == ["entered", "cancelled", "left"]


def test_who_is_forgotten_is_closed(client):
    face = Face(client).open()
    assert face.add(1, other=1) == 2
    del face
    gc.collect()
    assert client.notes == ["entered", "left"]


def test_a_forked_child_cannot_use_it_and_leaves_the_parent_alone(client):
    with Face(client) as face:
        assert face.add(1, other=1) == 2

        def child():
            with pytest.raises(ClientClosed, match="open one in this process"):
                face.add(1, other=1)
            face.close()
            with Face(Client()) as own:
                assert own.add(1, other=1) == 2

        assert exit_code_of_fork(child) == 0
        assert face.add(1, other=1) == 2


def test_a_process_ends_although_nobody_closed():
    code = (
        "import atexit; atexit.register(lambda: print(client.notes))\n"  # first registered, last run
        "from tests.client.test_sync import Client, Face\n"
        "client = Client(); face = Face(client).open(); print(face.add(1, other=1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n['entered', 'left']\n", "")
