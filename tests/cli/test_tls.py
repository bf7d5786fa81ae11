"""Commands that speak TLS to name servers: ``route``, ``simulate`` and ``broker run``."""

from __future__ import annotations

import secrets
import ssl

import pytest
from click.testing import CliRunner

from mqregistry.cli import cli
from mqregistry.cli.tls import client_context
from tests.certificates import Authority
from tests.server.harness import FrontEnd

from .processes import Process


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="module")
def front_end(redis_url, authority):
    """It takes TLS only, and only from clients that show a certificate."""
    pair = authority.sign("front-end")
    front_end = FrontEnd(
        redis_url, f"t{secrets.token_hex(5)}", tls_server_mode="enforcing", tls_server_cert_path=str(pair.cert),
        tls_server_key_path=str(pair.key), tls_server_need_client_auth="require", tls_server_auth_client=True,
        tls_server_trust_cert_path=str(authority.cert),
    )  # fmt: skip
    yield front_end
    front_end.close()


@pytest.fixture(scope="module")
def own(authority):
    return authority.sign("operator")


@pytest.fixture
def tls(authority, own):
    return ["--tls-ca", str(authority.cert), "--tls-cert", str(own.cert), "--tls-key", str(own.key)]


def run(*arguments):
    return CliRunner().invoke(cli, list(arguments))


def test_broker_run_and_route(front_end, tls, tmp_path):
    address = f"127.0.0.1:{front_end.port}"
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    process = Process(
        "broker", "run", "--name", "broker-a", "--topic", "orders", "--topic", "bills", "-n", address, *tls, env=env
    )
    try:
        process.wait_for("registered after")
        result = run("route", "orders", "--namesrv", address, *tls)
        assert result.exit_code == 0, result.output
        assert "broker-a" in result.output
    finally:
        assert process.end() == 0
    result = run("route", "orders", "--namesrv", address, *tls)
    assert "no topic 'orders' at name server" in result.output


def test_simulate(front_end, tls):
    result = run(
        "simulate", "-n", f"127.0.0.1:{front_end.port}", *tls, "--duration", "1h", "--scale", "3600", "--brokers", "2",
        "--topics", "3", "--clients", "1", "--lookups", "5", "--incidents", "0",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "lookups: " in result.output


def test_a_name_server_whose_certificate_is_signed_by_another(front_end, own, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    address = f"127.0.0.1:{front_end.port}"
    result = run("route", "orders", "--namesrv", address, "--tls-ca", str(stranger.cert), "--tls-cert", str(own.cert),
                 "--tls-key", str(own.key))  # fmt: skip
    assert result.exit_code == 1
    assert "certificate" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", [
    ("route", "orders", "--namesrv", "127.0.0.1:1"),
    ("simulate", "-n", "127.0.0.1:1"),
    ("broker", "run", "--name", "b", "-n", "127.0.0.1:1"),
])  # fmt: skip
def test_files_that_are_not_what_they_should_be(command, own, authority, tmp_path):
    empty = tmp_path / "no.pem"
    empty.write_text("no PEM")
    encrypted = authority.sign("hidden", password="secret")
    for options, message in (
        (["--tls-ca", str(empty)], f"--tls-ca {empty}: NO_CERTIFICATE_OR_CRL_FOUND; expected PEM"),
        (["--tls-cert", str(empty)], f"--tls-cert {empty}: "),
        (["--tls-cert", str(own.cert), "--tls-key", str(encrypted.key)], "not encrypted"),
        (["--tls-cert", str(own.cert), "--tls-key", str(authority.pair.key)], "KEY_VALUES_MISMATCH"),
        (["--tls-key", str(own.key)], "say which certificate it belongs to, with --tls-cert"),
        (["--tls-ca", str(tmp_path / "missing.pem")], "does not exist"),
    ):
        result = run(*command, *options)
        assert (result.exit_code, message in result.output) == (2, True), (options, result.output)
        assert "Traceback" not in result.output


def test_tls_without_name_servers_is_wrong_usage():
    result = run("route", "orders", "--tls")
    assert (result.exit_code, "say which, with --namesrv" in result.output) == (2, True), result.output
    result = run("broker", "run", "--name", "b", "--topic", "t", "--redis", "redis://127.0.0.1:1", "--tls")
    assert (result.exit_code, "--tls is for name servers" in result.output) == (2, True), result.output


def test_what_the_options_mean(authority, own):
    assert client_context(False, None, None, None) is None
    assert client_context(True, None, None, None).verify_mode == ssl.CERT_NONE
    context = client_context(False, authority.cert, None, None)
    assert (context.verify_mode, context.check_hostname, len(context.get_ca_certs())) == (ssl.CERT_REQUIRED, False, 1)
    assert client_context(False, None, own.cert, own.key).verify_mode == ssl.CERT_NONE


def test_topics_that_no_broker_may_have_are_wrong_usage():
    for topic, message in (("orders:8:8:99", "perm of topic 'orders' is 99"), ("t" * 256, "has 256 bytes")):
        result = run("broker", "run", "--name", "b", "-n", "127.0.0.1:1", "--topic", topic)
        assert (result.exit_code, message in result.output) == (2, True), result.output
    result = run("broker", "run", "--name", "b", "-n", "127.0.0.1:1", "--id", "-1")
    assert (result.exit_code, "broker_id is -1" in result.output) == (2, True), result.output
