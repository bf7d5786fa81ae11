"""PeerConnection against a server of the test's own, on asyncio's loop and on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import uvloop

from mqregistry.client.connection import PeerConnection
from mqregistry.errors import PeerGoesAway, PeerUnavailable, RemoteProtocolError
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader

from .ports import reserved_port


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request):
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


class Peer:
    """The server's side of one connection."""

    def __init__(self, reader, writer) -> None:
        self.reader, self.writer = reader, writer
        self._frames = FrameReader()
        self._waiting: list[bytes] = []

    async def receive(self) -> Command:
        while not self._waiting:
            data = await self.reader.read(65536)
            assert data, "the client hung up"
            self._waiting += self._frames.feed(data)
        return decode_command(self._waiting.pop(0))

    def has_more(self) -> bool:
        return bool(self._waiting or self.reader._buffer)

    def answer(self, to: Command, *, code: int = 0, body: bytes = b"", flag: int = 1) -> None:
        self.writer.write(encode_command(Command(code=code, opaque=to.opaque, flag=flag, ext_fields={}, body=body)))


@contextlib.asynccontextmanager
async def connected(*, limit=2**16, **options):
    """A connection and its other side."""
    accepted: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

    def accept(reader, writer) -> None:
        accepted.set_result(Peer(reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=limit)
    async with asyncio.timeout(20):
        connection = await PeerConnection.connect("127.0.0.1", server.sockets[0].getsockname()[1], **options)
        peer = await accepted
        try:
            yield connection, peer
        finally:
            await connection.close()
            peer.writer.close()
            with contextlib.suppress(OSError):
                await peer.writer.wait_closed()
            server.close()
            await server.wait_closed()


def nothing_left(connection: PeerConnection) -> bool:
    return not connection._waiting


async def test_answers_come_to_who_asked_in_any_order():
    async with connected() as (connection, peer):
        asked = [asyncio.create_task(connection.request(105, {"topic": f"t{i}"})) for i in range(20)]
        received = [await peer.receive() for _ in asked]
        assert len({command.opaque for command in received}) == len(asked)
        for command in reversed(received):
            peer.answer(command, body=command.ext_fields["topic"].encode())
        assert [(await task).body for task in asked] == [b"t%d" % i for i in range(20)]
        assert nothing_left(connection)


async def test_an_answer_in_pieces_and_many_in_one_piece():
    async with connected() as (connection, peer):
        asked = [asyncio.create_task(connection.request(105)) for _ in range(3)]
        received = [await peer.receive() for _ in asked]
        whole = b"".join(
            encode_command(Command(code=0, opaque=c.opaque, flag=1, ext_fields={}, body=b"x" * 100)) for c in received
        )
        for byte in whole[:50]:
            peer.writer.write(bytes([byte]))
            await peer.writer.drain()
        peer.writer.write(whole[50:])
        assert [(await task).body for task in asked] == [b"x" * 100] * 3


async def test_an_answer_with_an_error_code_is_an_answer():
    async with connected() as (connection, peer):
        asked = asyncio.create_task(connection.request(105))
        peer.answer(await peer.receive(), code=17)
        assert (await asked).code == 17


async def test_oneway_waits_for_nothing():
    async with connected() as (connection, peer):
        await connection.oneway(40, {"a": "b"}, b"body")
        command = await peer.receive()
        assert (command.code, command.is_oneway, command.ext_fields, command.body) == (40, True, {"a": "b"}, b"body")
        assert nothing_left(connection)


async def test_requests_of_the_server_and_answers_nobody_asked_for_are_ignored():
    async with connected() as (connection, peer):
        asked = asyncio.create_task(connection.request(105))
        command = await peer.receive()
        peer.answer(command, flag=0)  # the same opaque, but a request of the server's own
        peer.answer(Command(code=0, opaque=4711))
        peer.answer(command, body=b"this one")
        peer.answer(command, body=b"and again")
        assert (await asked).body == b"this one"


async def test_no_answer_in_time():
    async with connected() as (connection, peer):
        with pytest.raises(
            PeerUnavailable,
            match=r"127\.0\.0\.1:\d+: no answer to request 105 \(GET_ROUTEINFO_BY_TOPIC\) within 0\.05 s",
        ):
            await connection.request(105, timeout_s=0.05)
        assert nothing_left(connection)
        late = await peer.receive()
        asked = asyncio.create_task(connection.request(106))
        peer.answer(late, body=b"late")
        peer.answer(await peer.receive(), body=b"in time")
        assert (await asked).body == b"in time"


async def test_a_cancelled_request_leaves_nothing_behind():
    async with connected() as (connection, peer):
        asked = asyncio.create_task(connection.request(105))
        command = await peer.receive()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert nothing_left(connection)
        peer.answer(command)
        other = asyncio.create_task(connection.request(106))
        peer.answer(await peer.receive(), body=b"still good")
        assert (await other).body == b"still good"


async def test_a_request_cancelled_in_the_moment_of_the_hang_up():
    async with connected() as (connection, peer):
        asked = asyncio.create_task(connection.request(105))
        await peer.receive()
        connection.connection_lost(None)  # as the loop calls it, and before the task runs again
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert nothing_left(connection)


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x50\x00\x00\x00\x10{"])
async def test_the_server_hangs_up_in_the_middle(sent):
    async with connected() as (connection, peer):
        asked = [asyncio.create_task(connection.request(105)) for _ in range(3)]
        for _ in asked:
            await peer.receive()
        peer.writer.write(sent)
        peer.writer.close()
        for task in asked:
            with pytest.raises(PeerUnavailable, match="the connection was closed"):
                await task
        assert connection.is_closed
        assert nothing_left(connection)
        await connection.wait_closed()
        for again in (connection.request(105), connection.oneway(105)):
            with pytest.raises(PeerUnavailable, match="the connection was closed"):
                await again
        assert nothing_left(connection)


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 64, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x06\x00\x00\x00\x02{}", b"\x00" * 64,
     b"\x00\x00\x00\x08\x00\x00\x00\x04\xff\xfe{}", b"\x00\x00\x00\x08\x00\x00\x00\x04nope"],
    ids=repr,
)  # fmt: skip
async def test_garbage_from_the_server_closes_the_connection_or_is_ignored(garbage):
    async with connected() as (connection, peer):
        asked = asyncio.create_task(connection.request(105))
        command = await peer.receive()
        peer.writer.write(garbage)
        peer.answer(command, body=b"after it")
        (found,) = await asyncio.gather(asked, return_exceptions=True)
        if isinstance(found, Command):
            assert found.body == b"after it"
        else:
            assert isinstance(found, RemoteProtocolError)
            assert found.closes
            assert str(found).startswith(connection.peer)
            await connection.wait_closed()
            with pytest.raises(RemoteProtocolError):
                await connection.request(105)
        assert nothing_left(connection)


async def test_close_ends_what_is_under_way():
    async with connected() as (connection, peer):
        asked = [asyncio.create_task(connection.request(105)) for _ in range(3)]
        for _ in asked:
            await peer.receive()
        await connection.close()
        assert connection.is_closed
        for task in asked:
            with pytest.raises(PeerUnavailable):
                await task
        await connection.close()
        with pytest.raises(PeerUnavailable):
            await connection.request(105)


async def test_what_was_sent_before_a_close_is_sent_out():
    async with connected() as (connection, peer):
        body = b"x" * (8 << 20)
        asked = asyncio.create_task(connection.request(103, body=body))
        await asyncio.sleep(0)
        await asyncio.gather(connection.close(), read_all(peer, len(body)))
        with pytest.raises(PeerUnavailable):
            await asked


async def read_all(peer: Peer, least: int) -> None:
    total = 0
    while data := await peer.reader.read(1 << 20):
        total += len(data)
    assert total > least


async def test_a_server_that_does_not_read_holds_a_request_until_its_timeout_and_a_close_a_moment():
    async with connected(limit=1024) as (connection, _):
        first = asyncio.create_task(connection.request(103, body=b"x" * (15 << 20)))
        await asyncio.sleep(0)
        with pytest.raises(PeerUnavailable, match="no answer"):
            await connection.request(105, timeout_s=0.05)
        waiting = asyncio.create_task(connection.request(106))
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await connection.close()
        for task in (first, waiting):
            with pytest.raises(PeerUnavailable):
                await task
        assert nothing_left(connection)


async def test_nobody_listens_there():
    port = reserved_port()
    with pytest.raises(PeerUnavailable, match=rf"127\.0\.0\.1:{port}"):
        await PeerConnection.connect("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "x" * 64 + ".invalid", "a..b"])
async def test_a_host_that_is_none(host):
    with pytest.raises(PeerUnavailable, match=f"{host}:9876"):
        await PeerConnection.connect(host, 9876)


async def test_a_listener_that_does_not_accept_is_given_up_in_time():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        with contextlib.ExitStack() as stack:
            for _ in range(4):  # its queue is full then, and the kernel answers no more
                one = stack.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            with pytest.raises(PeerUnavailable, match=r"no connection within 0\.1 s"):
                await PeerConnection.connect("127.0.0.1", port, timeout_s=0.1)


def test_opaques_begin_again_at_0_before_they_leave_31_bits():
    import itertools

    connection = PeerConnection()
    connection._opaques = itertools.count(2**31 - 1)
    assert [connection._next_opaque() for _ in range(3)] == [2**31 - 1, 0, 1]


async def test_no_more_than_max_in_flight_are_sent_and_a_timeout_counts_from_the_call():
    async with connected(max_in_flight=2) as (connection, peer):
        asked = [asyncio.create_task(connection.request(105, {"n": str(n)})) for n in range(3)]
        received = [await peer.receive() for _ in range(2)]
        with pytest.raises(
            PeerUnavailable, match=r"no answer to request 106 \(GET_BROKER_CLUSTER_INFO\) within 0\.05 s"
        ):
            await connection.request(106, timeout_s=0.05)
        assert not peer.has_more()
        peer.answer(received[0])
        third = await peer.receive()
        assert third.ext_fields == {"n": "2"}
        for command in (received[1], third):
            peer.answer(command)
        assert [(await task).code for task in asked] == [0, 0, 0]
        asked = asyncio.create_task(connection.request(107))
        peer.answer(await peer.receive())
        assert (await asked).code == 0


async def test_a_request_of_the_peer_is_answered_by_whoever_knows_it(caplog):
    def on_request(command):
        if command.code == 905:
            seen.append(command.ext_fields)
            return None
        if command.code == 106:
            raise KeyError("mine")
        return Command(code=0, remark="done", body=command.body)

    seen = []
    async with connected(on_request=on_request) as (connection, peer):
        for code, flag in ((40, 0), (905, 2), (106, 0), (41, 2), (42, 0)):
            command = Command(code=code, opaque=code + 7000, flag=flag, ext_fields={"a": "b"}, body=b"x")
            peer.writer.write(encode_command(command))
        answers = [await peer.receive() for _ in range(3)]
        assert [(a.opaque, a.code, a.is_response) for a in answers] == [
            (7040, 0, True),
            (7106, 1, True),
            (7042, 0, True),
        ]
        assert answers[0].body == b"x"
        assert "mine" in answers[1].remark
        assert "request 106 (GET_BROKER_CLUSTER_INFO) of " in caplog.text
        assert seen == [{"a": "b"}]
        asked = asyncio.create_task(connection.request(105))
        peer.answer(await peer.receive())
        assert (await asked).code == 0


async def test_a_request_that_nobody_knows_is_answered_with_code_3():
    async with connected() as (_, peer):
        peer.writer.write(encode_command(Command(code=40, opaque=5)))
        answer = await peer.receive()
        assert (answer.code, answer.opaque, answer.remark) == (3, 5, " request type 40 not supported")


async def test_a_peer_that_goes_away_gets_no_more_requests_and_is_left_when_the_others_are_answered():
    async with connected() as (connection, peer):
        asked = [asyncio.create_task(connection.request(105)) for _ in range(2)]
        received = [await peer.receive() for _ in asked]
        peer.answer(received[0], code=1500)
        with pytest.raises(PeerGoesAway, match="shuts down"):
            await asked[0]
        assert not connection.is_usable
        assert not connection.is_closed
        with pytest.raises(PeerGoesAway, match="takes no more requests"):
            await connection.request(105)
        peer.answer(received[1], body=b"finished")
        assert (await asked[1]).body == b"finished"
        await connection.wait_closed()
        assert await peer.reader.read(1) == b""
        assert nothing_left(connection)


async def test_an_idle_connection_retires_at_once():
    async with connected() as (connection, _):
        assert connection.is_usable
        connection.retire()
        await connection.wait_closed()
        assert not connection.is_usable
