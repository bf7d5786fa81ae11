"""905: the recorded story, against brokers that listen at their own addresses."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

import pytest

from mqregistry.protocol.command import decode_command
from mqregistry.protocol.frame import FrameReader

from .harness import Broker, wait_until
from .test_front_ends_die import sweep_until


class Listening:
    """A broker's own port; keeps the 905s that come."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addr = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.heard: list[dict[str, str]] = []
        self._connections: list[tuple[socket.socket, threading.Thread]] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            reading = threading.Thread(target=self._read, args=(connection,), daemon=True)
            self._connections.append((connection, reading))
            self._threads.append(reading)
            reading.start()

    def _read(self, connection: socket.socket) -> None:
        reader = FrameReader()
        while True:
            try:
                data = connection.recv(65536)
            except OSError:
                return
            if not data:
                return
            for frame in reader.feed(data):
                command = decode_command(frame)
                assert (command.code, command.flag, command.body) == (905, 2, b"")
                self.heard.append(command.ext_fields)

    def take(self) -> list[dict[str, str]]:
        heard, self.heard = self.heard, []
        return heard

    def hang_up(self) -> None:
        for connection, _ in self._connections:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()

    def reset(self) -> None:
        """End its connections with RST, as a broker's machine does that restarted."""
        for connection, reading in self._connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RD)  # wakes the thread that reads
            reading.join()  # while it reads, the connection stays open whatever is closed here
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        self.hang_up()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def members():
    listening = [Listening() for _ in range(3)]
    yield listening
    for item in listening:
        item.close()


def test_members_are_told_of_a_smaller_id_and_of_its_leaving(front_end_with, members):
    front_end = front_end_with(notify_min_broker_id_changed=True)
    other = front_end_with()  # not told to: it stays silent
    brokers = [
        Broker("broker-a", member.addr, broker_id=i, enableActingMaster="true") for i, member in enumerate(members)
    ]
    zero, one, two = members
    arrives = {"haBrokerAddr": brokers[0].registration()[0]["haServerAddr"], "minBrokerAddr": zero.addr}
    arrives["minBrokerId"] = "0"
    leaves = {"offlineBrokerAddr": zero.addr, "minBrokerAddr": one.addr, "minBrokerId": "1"}
    with front_end.client() as first, front_end.client() as third:
        first.register(brokers[1])
        with front_end.client() as second:
            second.register(brokers[0])
            wait_until(lambda: one.heard, "the slave hears of the master")
            assert one.take() == [arrives]
            third.register(brokers[2])
        wait_until(lambda: one.heard and two.heard, "the close is told")
        assert (one.take(), two.take()) == ([leaves], [leaves])
        one.hang_up()  # a connection that the broker closed is made anew
        with front_end.client() as second:
            second.register(brokers[0])
            wait_until(lambda: one.heard and two.heard, "the return is told")
            assert (one.take(), two.take()) == ([arrives], [arrives])
            second.request(
                104,
                {"brokerName": "broker-a", "brokerAddr": zero.addr, "clusterName": "c1", "brokerId": "0"},
            )
            wait_until(lambda: one.heard and two.heard, "the goodbye is told")
            assert (one.take(), two.take()) == ([leaves], [leaves])
    assert zero.heard == []
    other.poll()
    assert "smallest broker id" not in other.log


def test_expiry_is_told_too_and_an_unreachable_broker_holds_up_nobody(front_end_with, members):
    front_end = front_end_with(notify_min_broker_id_changed=True)
    zero, one, _ = members
    gone = Listening()
    gone.close()
    stop = threading.Event()
    with front_end.client() as connection, front_end.client() as slaves:
        slaves.register(Broker("broker-a", gone.addr, broker_id=1, enableActingMaster="true"))
        slaves.register(Broker("broker-a", one.addr, broker_id=2, enableActingMaster="true"))
        connection.register(Broker("broker-a", zero.addr, enableActingMaster="true", heartbeatTimeoutMillis="1000"))
        wait_until(lambda: one.heard, "told of the master")
        one.take()
        sweeper = threading.Thread(target=sweep_until, args=(front_end, stop))
        sweeper.start()
        try:
            wait_until(lambda: one.heard, "told of its expiry")
        finally:
            stop.set()
            sweeper.join()
        assert one.take() == [{"offlineBrokerAddr": zero.addr, "minBrokerAddr": gone.addr, "minBrokerId": "1"}]
        front_end.wait_until(lambda: f"cannot tell broker {gone.addr}" in front_end.log, "the other was tried")


def test_a_reset_connection_is_opened_again_and_the_worker_lives(front_end_with, members):
    front_end = front_end_with(notify_min_broker_id_changed=True)
    zero, one, _ = members
    with front_end.client() as slave, front_end.client() as master:
        slave.register(Broker("broker-a", one.addr, broker_id=1, enableActingMaster="true"))
        master.register(Broker("broker-a", zero.addr, enableActingMaster="true"))
        wait_until(lambda: one.take(), "told of the master")
        one.reset()
        goodbye = {"brokerName": "broker-a", "brokerAddr": zero.addr, "clusterName": "c1", "brokerId": "0"}
        master.request(104, goodbye)
        front_end.wait_until(lambda: one.take(), "told of the goodbye over another connection")


def test_brokers_that_do_not_answer_hold_up_nobody(front_end_with, members):
    front_end = front_end_with(notify_min_broker_id_changed=True)
    zero, one, _ = members
    with contextlib.ExitStack() as stack:
        slaves = stack.enter_context(front_end.client())
        for broker_id in range(1, 6):  # they accept nothing, and their backlog is full: a connect gets no answer
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            stack.enter_context(socket.create_connection(silent.getsockname()))
            addr = f"127.0.0.1:{silent.getsockname()[1]}"
            slaves.register(Broker("broker-a", addr, broker_id=broker_id, enableActingMaster="true"))
        slaves.register(Broker("broker-a", one.addr, broker_id=6, enableActingMaster="true"))
        slaves.register(Broker("broker-a", zero.addr, enableActingMaster="true"))
        front_end.wait_until(lambda: one.heard, "the living one is told", 12)  # one by one it would take 15 s
        front_end.wait_until(lambda: front_end.log.count("cannot tell broker") == 5, "the others were tried")
