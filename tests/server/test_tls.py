"""TLS on the name server port: the three modes, mutual TLS, files that change, and clients that misbehave."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqregistry.config.settings import Settings, options
from mqregistry.config.sources import build
from mqregistry.errors import StartError
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.server.net.tls import Tls, stamp
from mqregistry.server.net.tls_transport import TlsTransport
from mqregistry.server.net.x509 import end_of_certificates
from tests.certificates import Authority, _make, replace

from .harness import Broker, Client, wait_until
from .serving import Serving, free_ports
from .test_proxy_protocol import GOOD

REQUEST = encode_command(Command(code=106, opaque=7, version=479))
# What the recorded probe sent is not in the recording; this is how every client's first record begins.
HELLO_START = bytes.fromhex("16030100c8010000c40303")


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="session")
def server(authority):
    return authority.sign("server")


@pytest.fixture(scope="session")
def renewed(authority):
    return authority.sign("renewed")


@pytest.fixture(scope="session")
def with_password(authority):
    return authority.sign("with-password", password="open sesame")


def of(pair, **more):
    return {"tls_server_cert_path": str(pair.cert), "tls_server_key_path": str(pair.key)} | more


def checking(authority, need="require"):
    return {
        "tls_server_mode": "enforcing" if need == "require" else "permissive",
        "tls_server_need_client_auth": need,
        "tls_server_auth_client": True,
        "tls_server_trust_cert_path": str(authority.cert),
    }


def trusting(authority, pair=None):
    """A client's context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.cert)
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


class TlsClient(Client):
    """A blocking remoting client over TLS."""

    def __init__(self, port, context, *, first=b"", **options):
        super().__init__(port, **options)
        try:
            self.socket.sendall(first)
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        except BaseException:
            self.socket.close()
            raise

    @property
    def peer(self):
        return self.socket.getpeercert(binary_form=True)


def logged(front_end, text):
    front_end.wait_until(lambda: text in front_end.log, f"{text!r} is logged")


def assert_refused(port, context):
    """With TLS 1.3 the client may learn it only from its first read."""
    with contextlib.suppress(ssl.SSLError, ConnectionError), TlsClient(port, context) as client:
        client.send(106)
        assert client.receive() is None


# modes


def test_permissive_serves_both_on_one_port(front_end_with, server, authority):
    front_end = front_end_with(**of(server))
    with front_end.client() as plain, TlsClient(front_end.port, trusting(authority)) as secured:
        assert secured.peer == server.der
        assert plain.register(Broker()).code == 0
        assert secured.route("topic1").body == plain.route("topic1").body
        assert secured.route("nothing").code == 17


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken(front_end_with, server, authority, version):
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    with TlsClient(front_end_with(**of(server)).port, context) as client:
        assert client.request(106).code == 0
        assert client.socket.version() == version.name.replace("_", ".")


def test_enforcing_closes_plain_connections(front_end_with, server, authority):
    front_end = front_end_with(**of(server, tls_server_mode="enforcing"))
    with front_end.client() as plain:
        plain.socket.sendall(REQUEST)
        assert plain.closed()
    logged(front_end, "not TLS, and tlsServerMode is enforcing")
    with front_end.client() as plain:
        plain.socket.sendall(GOOD["v1-tcp4"][0] + REQUEST)
        assert plain.closed()
    with TlsClient(front_end.port, trusting(authority)) as secured:
        assert secured.request(106).code == 0


def test_disabled_closes_a_tls_hello_as_a_bad_frame(front_end_with, server, authority):
    front_end = front_end_with(**of(server, tls_server_mode="disabled"))
    assert_refused(front_end.port, trusting(authority))
    logged(front_end, "bad frame: a TLS hello, but tlsServerMode is disabled")
    front_end.wait_until(lambda: front_end.counter("bad_frames_total") == 1, "it is counted")
    with front_end.client() as plain:
        assert plain.request(106).code == 0


def test_permissive_without_a_certificate_closes_a_tls_hello_and_says_what_to_set(front_end, authority):
    assert_refused(front_end.port, trusting(authority))
    logged(front_end, "this server has no certificate: set tlsServerCertPath and tlsServerKeyPath")
    with front_end.client() as plain:
        assert plain.request(106).code == 0


def test_enforcing_without_a_certificate_does_not_start(redis_url):
    (port,) = free_ports(1)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mqregistry", "serve", "--redis", redis_url, "--host", "127.0.0.1",
         "--port", str(port), "--http-port", "0"],
        env={**os.environ, "MQREGISTRY_TLS_SERVER_MODE": "enforcing"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 253
    assert "tlsServerMode=enforcing needs a certificate" in done.stderr


def test_test_mode_makes_a_certificate(front_end_with, authority):
    front_end = front_end_with(tls_test_mode_enable=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with TlsClient(front_end.port, context) as client:
        assert client.request(106).code == 0
    logged(front_end, "which proves nothing")
    assert_refused(front_end.port, trusting(authority))


def test_a_configured_certificate_goes_before_test_mode(front_end_with, server, authority):
    front_end = front_end_with(**of(server, tls_test_mode_enable=True))
    with TlsClient(front_end.port, trusting(authority)) as client:
        assert client.peer == server.der


def test_half_a_hello_stays_open_and_silent_as_recorded_of_5_3_3(front_end_with):
    front_end = front_end_with(tls_test_mode_enable=True)
    with front_end.client(timeout_s=0.5) as client:
        client.socket.sendall(HELLO_START)
        assert not client.closed()


def test_half_a_hello_is_closed_as_recorded_of_4_8_0(front_end_with):
    """Whose NameServer could not make its certificate."""
    with front_end_with(compat="4.8").client() as client:
        client.socket.sendall(HELLO_START)
        assert client.closed()


# mutual TLS


def test_required_client_certificate_is_checked(front_end_with, server, authority, stranger):
    front_end = front_end_with(**of(server), **checking(authority))
    with TlsClient(front_end.port, trusting(authority, authority.sign("client"))) as client:
        assert client.request(106).code == 0
    assert_refused(front_end.port, trusting(authority))
    logged(front_end, "TLS handshake: PEER_DID_NOT_RETURN_A_CERTIFICATE")
    assert_refused(front_end.port, trusting(authority, stranger.sign("client")))
    logged(front_end, "TLS handshake: CERTIFICATE_VERIFY_FAILED (unable to get local issuer certificate)")
    with front_end.client() as plain:
        plain.send(106)
        assert plain.closed()


def test_required_client_certificates_need_the_mode_that_requires_tls(server, authority):
    """With permissive, a client without any certificate is served: it does not use TLS."""
    with pytest.raises(StartError, match=r"set tlsServerMode=enforcing, or tlsServerNeedClientAuth=optional"):
        Tls(Settings(**of(server), **checking(authority) | {"tls_server_mode": "permissive"}))
    Tls(Settings(**of(server), **checking(authority, "optional")))


def test_optional_client_certificate_is_checked_when_there_is_one(front_end_with, server, authority, stranger):
    front_end = front_end_with(**of(server), **checking(authority, "optional"))
    for pair in (None, authority.sign("client")):
        with TlsClient(front_end.port, trusting(authority, pair)) as client:
            assert client.request(106).code == 0
    assert_refused(front_end.port, trusting(authority, stranger.sign("client")))


def test_unchecked_optional_certificates_are_not_asked_for(front_end_with, server, authority, stranger):
    front_end = front_end_with(**of(server, tls_server_need_client_auth="optional"))
    with TlsClient(front_end.port, trusting(authority, stranger.sign("client"))) as client:
        assert client.request(106).code == 0


# settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tls_server_key_path": ""}, "tlsServerKeyPath is not set"),
        ({"tls_server_cert_path": ""}, "tlsServerCertPath is not set"),
        ({"tls_server_cert_path": "/nowhere.pem"}, "cannot use the certificate /nowhere.pem .*No such file"),
        ({"tls_server_need_client_auth": "require"}, "set tlsServerAuthClient=true"),
        (
            {
                "tls_server_cert_path": "",
                "tls_server_key_path": "",
                "tls_server_need_client_auth": "optional",
                "tls_test_mode_enable": True,
            },
            "certificate of the test mode protects nothing",
        ),
        ({"tls_config_file": "/nowhere.properties"}, "cannot read tlsConfigFile /nowhere.properties: No such file"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused_with_a_reason(server, change, message):
    sources = dict.fromkeys(change, "flag")
    with pytest.raises(StartError, match=message):
        Tls(Settings(**(of(server) | change), sources=sources))


@pytest.mark.parametrize("password", ["", "wrong"])
def test_a_key_without_its_password_is_refused(with_password, password):
    with pytest.raises(StartError, match="cannot use the certificate"):
        Tls(Settings(**of(with_password, tls_server_key_password=password)))


def test_a_key_with_its_password_is_used(front_end_with, with_password, authority):
    front_end = front_end_with(**of(with_password, tls_server_key_password="open sesame"))
    with TlsClient(front_end.port, trusting(authority)) as client:
        assert client.peer == with_password.der


def test_a_key_of_another_certificate_is_refused(server, renewed):
    with pytest.raises(StartError, match="KEY_VALUES_MISMATCH"):
        Tls(Settings(tls_server_cert_path=str(server.cert), tls_server_key_path=str(renewed.key)))


def test_trust_that_is_no_certificate_is_refused(server, tmp_path):
    (tmp_path / "trust.pem").write_text("no certificate")
    settings = of(server) | checking(server) | {"tls_server_trust_cert_path": str(tmp_path / "trust.pem")}
    with pytest.raises(StartError, match="cannot use the trust certificates"):
        Tls(Settings(**settings))


def end_of(path, *, crl=False):
    """When it ends, as openssl says it."""
    kind = ["crl", "-nextupdate"] if crl else ["x509", "-enddate"]
    told = subprocess.run(
        ["openssl", kind[0], "-in", path, "-noout", kind[1]], capture_output=True, text=True, check=True
    )
    return ssl.cert_time_to_seconds(told.stdout.strip().partition("=")[2])


def test_it_is_known_when_certificates_and_lists_end(server, authority, stranger, tmp_path):
    chain, crl = tmp_path / "chain.pem", authority.revoke(server)
    chain.write_bytes(server.cert.read_bytes() + authority.cert.read_bytes())
    tls = Tls(Settings(
        tls_server_cert_path=str(chain), tls_server_key_path=str(server.key), tls_server_crl_path=str(crl),
        tls_server_trust_cert_path=str(stranger.cert), tls_server_auth_client=True,
        tls_server_need_client_auth="optional",
    ))  # fmt: skip
    assert tls.ends == {
        "certificate": min(end_of(server.cert), end_of(authority.cert)), "trusted": end_of(stranger.cert),
        "revoked": end_of(crl, crl=True),
    }  # fmt: skip
    before = tls.ends
    chain.write_text("no certificate")
    tls.look()
    assert tls.ends == before, "it goes on with what it had"


def test_a_certificate_beyond_2049_ends_then():
    """From 2050 on X.509 writes four digits of the year."""
    with tempfile.TemporaryDirectory() as folder:
        pair = _make(Path(folder), "late", "-days", "20000")
        assert end_of_certificates(pair.cert.read_bytes()) == end_of(pair.cert) > 2524608000


def test_a_front_end_shows_when_its_certificate_ends(tmp_path, redis_url, server):
    with contextlib.closing(Serving(tmp_path, redis_url, **of(server))) as serve:
        serve.wait_until(lambda: "tls_end_seconds{certificate}" in serve.metrics(), "it is shown")
        assert serve.metrics()["tls_end_seconds{certificate}"] == end_of(server.cert)


def java_file(folder, text):
    path = folder / "tls.properties"
    path.write_text(text)
    return str(path)


def test_the_file_of_the_java_name_server_is_read(front_end_with, tmp_path, with_password, authority):
    file = java_file(
        tmp_path,
        f"tls.test.mode.enable=false\ntls.server.certPath={with_password.cert}\n"
        f"tls.server.keyPath={with_password.key}\ntls.server.keyPassword=open sesame\n"
        f"tls.server.need.client.auth=REQUIRE\ntls.server.authClient=true\n"
        f"tls.server.trustCertPath={authority.cert}\ntls.client.certPath=of-clients\n"
        "tls.server.mode=disabled\ntls.sever.mode=x\n",
    )
    front_end = front_end_with(tls_config_file=file, tls_server_mode="enforcing")
    with TlsClient(front_end.port, trusting(authority, authority.sign("client"))) as client:
        assert client.peer == with_password.der
    assert_refused(front_end.port, trusting(authority))
    logged(front_end, "tls.server.mode has no effect in this file: see tlsServerMode")
    assert "unknown key 'tls.sever.mode'" in front_end.log
    assert "client.certPath" not in front_end.log


def test_the_java_file_goes_before_ours_and_the_environment_before_both(tmp_path, server, renewed, with_password):
    ours = tmp_path / "namesrv.properties"
    ours.write_text(f"tlsServerCertPath=/nowhere\ntlsServerKeyPath={with_password.key}\n")
    file = java_file(tmp_path, f"tls.server.certPath={server.cert}\ntls.server.keyPath={server.key}\n")
    environ = {"MQREGISTRY_TLS_CONFIG_FILE": file}
    Tls(build(config_file=ours, environ=environ))
    environ["MQREGISTRY_TLS_SERVER_KEY_PATH"] = str(renewed.key)
    with pytest.raises(StartError, match="KEY_VALUES_MISMATCH"):
        Tls(build(config_file=ours, environ=environ))


def test_a_wrong_value_in_the_java_file_is_named_with_its_line(tmp_path):
    file = java_file(tmp_path, "# TLS\ntls.server.need.client.auth=perhaps\n")
    with pytest.raises(StartError, match=r"tls\.properties:2: tls\.server\.need\.client\.auth: expected one of"):
        Tls(Settings(tls_config_file=file))


def test_a_password_is_never_shown():
    option = options()["tls_server_key_password"]
    assert (option.show("open sesame"), option.show("")) == ("***", "")


# files that change


class Watched:
    """A Tls on files of its own, looked at by hand; its clock of file times goes on by itself."""

    def __init__(self, folder, pair, trust):
        self.cert, self.key, self.trust = folder / "cert.pem", folder / "key.pem", folder / "trust.pem"
        pair.put_at(self.cert, self.key)
        replace(self.trust, trust.cert)
        self.gone = set()
        settings = Settings(
            tls_server_cert_path=str(self.cert), tls_server_key_path=str(self.key),
            tls_server_trust_cert_path=str(self.trust), tls_server_need_client_auth="require",
            tls_server_auth_client=True, tls_server_mode="enforcing",
        )  # fmt: skip
        self.tls = Tls(settings, look_at=self._look_at)

    def _look_at(self, path):
        if path in self.gone:
            raise PermissionError(13, "Permission denied")
        return stamp(path)

    def reloaded(self):
        """Whether a look brought a new context."""
        before = self.tls.context_for_new()
        self.tls.look()
        return self.tls.context_for_new() is not before

    def serves(self, pair, context):
        """Whether a client that wants this certificate's server gets through, with this context of its own."""
        with contextlib.suppress(ssl.SSLError):
            return shake_hands(self.tls.context_for_new(), context) == pair.der
        return False


def shake_hands(server_context, client_context):
    """In memory; the server's certificate as the client sees it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    waiting = [client, server]
    for _ in range(10):
        for side in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
                waiting.remove(side)
    assert not waiting
    return client.getpeercert(binary_form=True)


@pytest.fixture
def watched(tmp_path, server, authority):
    return Watched(tmp_path, server, authority)


@pytest.fixture(scope="session")
def client_pair(authority):
    return authority.sign("client")


def test_files_that_do_not_change_are_not_loaded_again(watched):
    assert not watched.reloaded()
    assert not watched.reloaded()


def test_certificate_and_key_are_loaded_once_both_have_changed(watched, renewed, server, authority, client_pair):
    context = trusting(authority, client_pair)
    renewed.put_at(watched.cert)
    assert not watched.reloaded()
    assert not watched.reloaded()
    assert watched.serves(server, context)
    renewed.put_at(watched.cert, watched.key)
    assert watched.reloaded()
    assert watched.serves(renewed, context)
    assert not watched.reloaded()


def test_the_key_first_is_as_good(watched, renewed, authority, client_pair):
    replace(watched.key, renewed.key)
    assert not watched.reloaded()
    replace(watched.cert, renewed.cert)
    assert watched.reloaded()
    assert watched.serves(renewed, trusting(authority, client_pair))


def test_trust_alone_is_loaded(watched, server, authority, stranger, client_pair):
    replace(watched.trust, stranger.cert)
    assert watched.reloaded()
    assert not watched.serves(server, trusting(authority, client_pair))
    assert watched.serves(server, trusting(authority, stranger.sign("client")))


def test_a_bad_new_pair_keeps_the_old_one_says_so_once_and_is_tried_again(
    watched, server, renewed, stranger, authority, client_pair, caplog
):
    context = trusting(authority, client_pair)
    replace(watched.cert, renewed.cert)
    replace(watched.key, stranger.pair.key)
    assert not watched.reloaded()
    assert not watched.reloaded()
    assert watched.serves(server, context)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "KEY_VALUES_MISMATCH; new connections use the certificate that was loaded before" in line
    replace(watched.key, renewed.key)  # the certificate needs not be written a second time
    assert watched.reloaded()
    assert watched.serves(renewed, context)


def test_new_trust_comes_with_the_rest_of_a_pair_that_is_half_changed(watched, renewed, authority, stranger):
    replace(watched.cert, renewed.cert)
    replace(watched.trust, stranger.cert)
    assert not watched.reloaded()
    replace(watched.key, renewed.key)
    assert watched.reloaded()
    assert watched.serves(renewed, trusting(authority, stranger.sign("client")))


def test_files_that_go_away_for_a_while_are_no_change(watched, renewed, caplog):
    content = watched.cert.read_bytes()
    watched.cert.unlink()
    assert not watched.reloaded()
    watched.cert.write_bytes(content)
    assert not watched.reloaded()
    assert "cannot watch" in caplog.text


def test_a_watch_that_cannot_be_set_up_only_warns(tmp_path, server, authority, client_pair, caplog, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    tls = Tls(Settings(**of(server), **checking(authority)), look_at=refuse)
    for _ in range(3):
        tls.look()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == [
        f"TLS: cannot watch {path}: Permission denied" for path in (server.cert, server.key, authority.cert)
    ]
    assert shake_hands(tls.context_for_new(), trusting(authority, client_pair)) == server.der


def test_new_connections_see_the_new_certificate_old_ones_go_on(
    front_end_with, tmp_path, server, renewed, stranger, authority
):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    server.put_at(cert, key)
    front_end = front_end_with(tls_server_cert_path=str(cert), tls_server_key_path=str(key))
    context = trusting(authority)
    with TlsClient(front_end.port, context) as old:
        assert (old.request(106).code, old.peer) == (0, server.der)
        replace(cert, stranger.pair.cert)
        replace(key, renewed.key)
        logged(front_end, "new connections use the certificate that was loaded before")
        with TlsClient(front_end.port, context) as new:
            assert (new.request(106).code, new.peer) == (0, server.der)
        renewed.put_at(cert, key)
        logged(front_end, "the certificate and private key changed, reloaded")
        with TlsClient(front_end.port, context) as new:
            assert (new.request(106).code, new.peer) == (0, renewed.der)
        assert (old.request(106).code, old.peer) == (0, server.der)


# traffic


@pytest.fixture
def secure(front_end_with, server):
    """A front end that speaks nothing but TLS."""
    return front_end_with(**of(server, tls_server_mode="enforcing"))


def test_a_large_registration_and_its_routes(secure, authority):
    topics = [f"{number:05}-a-topic-with-a-name-of-some-length" for number in range(9000)]
    broker = Broker(topics=topics)
    assert len(broker.registration()[1]) > 1_700_000
    with TlsClient(secure.port, trusting(authority), timeout_s=30) as client:
        assert client.register(broker).code == 0
        assert client.route(topics[-1]).code == 0
        assert len(client.request(206).body) > len(topics[0]) * len(topics)


def test_pipelined_frames_are_answered_in_order(secure, authority):
    with TlsClient(secure.port, trusting(authority)) as client:
        frames = [encode_command(Command(code=106, opaque=opaque, version=479)) for opaque in range(1, 2001)]
        client.socket.sendall(b"".join(frames))
        assert [client.receive().opaque for _ in frames] == list(range(1, 2001))


def test_a_broker_over_tls_is_gone_when_its_connection_closes(secure, authority):
    context = trusting(authority)
    with TlsClient(secure.port, context) as client:
        with TlsClient(secure.port, context) as broker:
            assert broker.register(Broker()).code == 0
            assert client.route("topic1").code == 0
        secure.wait_until(lambda: client.route("topic1").code == 17, "its route is gone")


def test_tls_behind_a_proxy_header(secure, authority):
    for name in ("v1-tcp4", "v2-tlvs"):
        with TlsClient(secure.port, trusting(authority), first=GOOD[name][0]) as client:
            assert client.request(106).code == 0
            client.socket.sendall(b"\xff" * 8)
            assert client.closed()
    logged(secure, "closing the connection of 10.1.2.3:56324: bad frame: frame length")
    logged(secure, "closing the connection of 10.1.2.3:5: bad frame: frame length")


def test_a_farewell_is_answered_with_one(secure, authority):
    with TlsClient(secure.port, trusting(authority)) as client:
        assert client.request(106).code == 0
        client.socket.unwrap().close()  # returns once the server has said farewell too
    secure.wait_until(lambda: secure.poll().get("connections") == 0, "it is gone")


def test_200_clients_at_once(secure, authority):
    context = trusting(authority)

    def talk(number):
        with TlsClient(secure.port, context, timeout_s=60) as client:
            broker = Broker(f"broker-{number}", f"127.0.0.1:{20_000 + number}", topics=[f"topic-{number}", "common"])
            assert client.register(broker).code == 0
            assert all(client.route(f"topic-{number}").code == 0 for _ in range(20))
            return client.request(106).code

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        assert list(pool.map(talk, range(200))) == [0] * 200
    secure.wait_until(lambda: secure.poll().get("connections") == 0, "all are gone")
    assert "Traceback" not in secure.log


def test_a_client_that_never_reads_is_dropped_and_costs_little(front_end_with, server, authority):
    front_end = front_end_with(**of(server), slow_client_timeout_seconds=1)
    with front_end.client() as broker, TlsClient(front_end.port, trusting(authority)) as client:
        broker.register(Broker(topics=[f"a-rather-long-topic-name-{i:04}" for i in range(2000)]))
        before = psutil.Process(front_end.process.pid).memory_info().rss
        client.socket.settimeout(0.5)
        request = encode_command(Command(code=206, opaque=1, version=479)) * 200  # 60 kB each
        with contextlib.suppress(OSError):
            for _ in range(400):
                client.socket.sendall(request)
        front_end.wait_until(lambda: front_end.counter("slow_clients_total") == 1, "it was dropped")
        assert psutil.Process(front_end.process.pid).memory_info().rss < before + (64 << 20)
        assert broker.request(106).code == 0


# handshakes that go wrong


def test_a_slow_handshake_is_dropped_after_its_time(front_end_with, server, authority):
    front_end = front_end_with(**of(server), handshake_timeout_ms=6000)
    text = "PROXY header or TLS handshake was incomplete after 6 s"

    def is_refused(client):
        try:
            client.socket.sendall(b"\0")
        except OSError:
            return True
        time.sleep(0.1)  # with 200 bytes it would be a handshake that is wrong
        return False

    with (
        TlsClient(front_end.port, trusting(authority)) as is_open, front_end.client() as idle,
        front_end.client() as silent, front_end.client() as trickling,
    ):  # fmt: skip
        silent.socket.sendall(HELLO_START)
        trickling.socket.sendall(HELLO_START)
        wait_until(lambda: is_refused(trickling), "a byte now and then does not keep it open")
        assert silent.closed()
        front_end.wait_until(lambda: front_end.log.count(text) == 2, "both are logged")
        # the time of these is over, too, but not counted
        assert idle.request(106).code == is_open.request(106).code == 0


@pytest.mark.parametrize("garbage", [b"\x16" * 600, HELLO_START + b"\xff" * 300, b"\x16\x03\x01\x00\x05hello"])
def test_a_garbage_handshake_is_closed(front_end_with, server, garbage):
    front_end = front_end_with(**of(server))
    with front_end.client() as client:
        client.socket.sendall(garbage)
        client.socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while client.socket.recv(1000):
                pass
    front_end.wait_until(lambda: front_end.poll().get("connections") == 0, "it is closed")
    with front_end.client() as plain:
        assert plain.request(106).code == 0
    assert "Traceback" not in front_end.log


def test_a_broken_record_closes_the_connection(secure, authority):
    with TlsClient(secure.port, trusting(authority)) as client:
        assert client.request(106).code == 0
        with socket.socket(fileno=os.dup(client.socket.fileno())) as bare:
            bare.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            client.receive()
    logged(secure, "bad frame: TLS: ")


def test_half_handshakes_count_as_connections(front_end_with, server):
    front_end = front_end_with(**of(server), max_connections=3)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(front_end.client()).socket.sendall(HELLO_START)
        front_end.wait_until(lambda: front_end.poll().get("connections") == 3, "three are counted")
        assert stack.enter_context(front_end.client()).closed()
    front_end.wait_until(lambda: front_end.poll().get("connections") == 0, "they are gone")
    with front_end.client() as client:
        assert client.request(106).code == 0


def test_a_drain_says_farewell_to_tls_connections(front_end_with, server, authority):
    front_end = front_end_with(**of(server))
    context = trusting(authority)
    with TlsClient(front_end.port, context) as client, front_end.client() as half:
        half.socket.sendall(HELLO_START)
        assert client.request(106).code == 0
        front_end.process.send_signal(signal.SIGTERM)
        logged(front_end, "draining")
        assert client.request(106).code == 1500
        assert client.receive() is None  # and no ssl.SSLEOFError, which is what an end without farewell would be
        assert half.closed()
    assert front_end.process.wait(60) == 0


# the transport alone, without a network


class Wire:
    """A socket's transport as the adapter uses it; what the adapter only hands on is not asked for."""

    set_write_buffer_limits = get_write_buffer_size = get_extra_info = pause_reading = resume_reading = None

    def __init__(self):
        self.sent = ssl.MemoryBIO()
        self.closed = False

    def write(self, data):
        self.sent.write(data)

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    abort = close


class Echo:
    """A connection that answers with what it gets; keeps the pieces."""

    address, closing = "?", False

    def __init__(self):
        self.pieces, self.refused = [], []

    def use_transport(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.pieces.append(data)
        self.transport.write(data)

    def refuse(self, error):
        self.refused.append(str(error))
        self.transport.close()


@pytest.fixture(scope="module")
def contexts(server, authority):
    return Tls(Settings(**of(server))).context_for_new(), trusting(authority)


def in_pieces(data, sizes):
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            return
        yield data[at : at + size]
        at += size


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 40_000), min_size=1, max_size=5),
    st.lists(st.binary(min_size=1, max_size=50_000), min_size=1, max_size=4),
)
def test_bytes_cut_anywhere_come_through_and_back(contexts, sizes, messages):
    server_context, client_context = contexts
    to_client, echo, wire, opened = ssl.MemoryBIO(), Echo(), Wire(), []
    secured = TlsTransport(wire, echo, server_context, opened.append)
    to_server = ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")

    def exchange():
        for piece in in_pieces(to_server.read(), sizes):
            secured.data_received(piece)
        to_client.write(wire.sent.read())

    while not opened or to_server.pending:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        exchange()
    whole = b"".join(messages)
    back = b""
    for message in messages:
        sent = 0
        while sent < len(message):
            sent += client.write(message[sent:])
        exchange()
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                back += client.read(1 << 16)
    assert b"".join(echo.pieces) == whole == back
    with contextlib.suppress(ssl.SSLWantReadError):
        client.unwrap()
    exchange()
    client.unwrap()  # both have said farewell
    assert wire.closed
    assert not echo.refused


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5))
def test_a_handshake_of_any_bytes_is_waited_for_or_refused(contexts, pieces):
    echo = Echo()
    secured = TlsTransport(Wire(), echo, contexts[0], lambda _: None)
    for piece in [HELLO_START[:5], *pieces]:
        secured.data_received(piece)
        if echo.refused:
            break
    assert not echo.pieces
    assert all(text.startswith("TLS handshake: ") for text in echo.refused)


def test_what_came_in_one_read_goes_on_in_one_piece(contexts):
    server_context, client_context = contexts
    echo, wire, opened = Echo(), Wire(), []
    secured = TlsTransport(wire, echo, server_context, opened.append)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    while not opened:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        secured.data_received(to_server.read())
        to_client.write(wire.sent.read())
    for _ in range(20):
        client.write(REQUEST)
    secured.data_received(to_server.read())
    (piece,) = echo.pieces
    frames = FrameReader().feed(piece)
    assert [decode_command(frame).opaque for frame in frames] == [7] * 20
