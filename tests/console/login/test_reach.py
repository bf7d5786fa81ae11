"""From where a console is reached: what is refused at the start, names behind a proxy, whose word counts."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys

import httpx
import pytest

from mqregistry.auth import changes
from mqregistry.auth.rights import Role
from mqregistry.console.login.reach import Reach, check_reach, parse_origin
from mqregistry.store.auth.policies import PolicyStore
from tests.console.conftest import HERE, Running, open_site
from tests.server.auth_bed import secret_of, user

from .conftest import add_users, form_of, log_in

NAME = "https://console.example"
PROXY = "10.0.0.1"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def check(host="127.0.0.1", *, login=True, origins=(), proxies=(), cert=None, key=None):
    return check_reach(host, login=login, origins=origins, proxies=proxies, cert=cert, key=key)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "console.example", ""])
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"login": False}, "without a login: add --login"),
        ({"login": False, "origins": [NAME]}, "add --login"),
        ({}, "secrets would cross the network unencrypted: give --tls-cert and --tls-key, or --proxy"),
        ({"origins": [NAME]}, "secrets would cross the network unencrypted"),
        ({"proxies": [PROXY]}, "give the address under which browsers open the console.*--origin https://"),
        ({"proxies": [PROXY], "origins": ["http://console.example"]}, "let browsers use https"),
    ],
)  # fmt: skip
def test_what_others_reach_needs_a_login_that_nobody_can_listen_to(host, asked, says):
    with pytest.raises(ValueError, match=says):
        check(host, **asked)


def test_what_is_enough(certificate):
    cert, key = certificate
    assert check() == Reach(login=True)
    assert check(login=False) == Reach()
    assert check("::1", login=False).hosts == frozenset()
    assert check("0.0.0.0", cert=cert, key=key, origins=["https://Console.Example:9880/"]).origins == (
        "https://console.example:9880",
    )
    assert check("10.0.0.9", proxies=["10.0.0.0/24"], origins=[NAME]).is_proxy("10.0.0.77")
    assert check(login=False, origins=["http://console.example"]).hosts == {"console.example"}  # its proxy asks


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"cert": "x"}, "give both, or neither"),
        ({"login": False, "proxies": [PROXY]}, "which only --login uses"),
        ({"proxies": ["everybody"]}, "expected an address or a network"),
        ({"proxies": ["0.0.0.0/0"]}, "everybody may claim any address"),
        ({"origins": ["http://console.example"]}, "secrets would cross the network unencrypted"),
        ({"cert": "none.pem", "key": "none.pem"}, "cannot be used: .*expected a certificate"),
    ],
)
def test_what_contradicts_itself_is_refused(asked, says):
    with pytest.raises(ValueError, match=says):
        check(**asked)


def test_a_key_with_a_password_is_refused_and_asks_for_none(certificate, tmp_path):
    cert, key = certificate
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:secret"],
        check=True, capture_output=True,
    )  # fmt: skip
    with pytest.raises(ValueError, match="its key without a password"):
        check(cert=cert, key=locked)


@pytest.mark.parametrize(
    "text", ["console.example", "ftp://console.example", "https://console.example/x", "https://", "https://a b",
             "https://user@console.example", "https://console.example?x", "https://c\u00f6nsole.example",
             "https://console.example:0", "https://console.example:x"],
)  # fmt: skip
def test_what_is_no_origin(text):
    with pytest.raises(ValueError, match="expected what browsers show before the path"):
        parse_origin(text)


def test_an_origin_is_as_browsers_write_it():
    assert parse_origin("HTTPS://Console.Example:443/") == NAME
    assert parse_origin("http://console.example:443") == "http://console.example:443"
    assert parse_origin("https://[::1]:9880") == "https://[::1]:9880"


@pytest.fixture
def proxied(runner, store, bed, tmp_path):
    """One that browsers open under another name, through a proxy."""
    runner.run(add_users(store))
    reach = Reach(login=True, origins=(NAME,), proxies=(f"{PROXY}/32",))
    opened = open_site(store, tmp_path / "checkpoints", reach=reach, base=NAME, actions=True)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


def from_browser(address):
    return {"x-forwarded-for": address, "x-forwarded-proto": "https"}


async def test_behind_a_proxy_of_another_name_actions_work_and_name_the_browser(proxied, bed):
    await bed.register(topics=["orders", "bills"])
    await proxied.until_seen((await bed.head()).seq)
    await bed.events()
    headers = {**from_browser("6.6.6.6, 10.1.2.3"), "origin": NAME}  # a browser may send such a header itself
    async with proxied.browser(PROXY) as browser:
        answer = await log_in(browser, "near", origin=NAME, **from_browser("6.6.6.6, 10.1.2.3"))
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-mqconsole-9880=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} == {one.strip() for one in cookie.split(";")[1:]}
        page = await browser.get("/action", params={"do": "wipe", "name": "broker-a"}, headers=headers)
        assert "has no right" not in page.text
        # a proxy may send a Host of its own; what the browser says of the origin counts
        done = await browser.post("/action", data=form_of(page.text), headers={**headers, "host": "127.0.0.1:9880"})
        assert done.status_code == 200, done.text
        (event,) = await bed.events()
        assert (event.by.user, event.by.peer, event.by.via) == ("near", "10.1.2.3", f"{PROXY}:51234")
        assert str(event.by).endswith(f"from 10.1.2.3 via {PROXY}:51234")


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://console.example"}, {"origin": "https://evil.example"}, {"origin": f"{NAME}:444"},
     {"origin": HERE}, {"host": "evil.example"}, {"host": "console.example:444"}, {"sec-fetch-site": "same-site"}],
)  # fmt: skip
async def test_under_no_other_name_anything_is_done(proxied, headers):
    sent = {**from_browser("10.1.2.3"), "origin": NAME, **headers}
    async with proxied.browser(PROXY) as browser:
        form = {"name": "ops", "secret": secret_of("ops")}
        answer = await browser.post("/login", data=form, headers=sent)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_in_plain_http_nobody_but_the_proxy_and_this_machine_is_answered(proxied):
    async with proxied.browser("10.7.7.7") as browser:
        for path in ("/", "/login", "/static/console.css"):
            answer = await browser.get(path)
            assert answer.status_code == 403
            assert "from its proxy alone" in answer.text
            assert "content-security-policy" in answer.headers
    async with proxied.browser("127.0.0.1") as browser:
        assert (await browser.get("/healthz")).status_code == 200


async def test_whoever_is_no_proxy_cannot_claim_an_address(console):
    """Without --proxy nobody is: not even this machine."""
    for claim in ("10.1.2.3", "10.1.2.4"):
        answer = await log_in(console.http, "near", status=401, **from_browser(claim))
        assert "may do nothing from 127.0.0.1" in answer.text


async def test_a_proxy_at_an_ipv6_socket_is_the_same(proxied, bed):
    """A console at ``::`` sees the IPv4 address of its proxy inside an IPv6 one."""
    await bed.register(topics=["orders", "bills"])
    await proxied.until_seen((await bed.head()).seq)
    await bed.events()
    headers = {**from_browser("10.1.2.3"), "origin": NAME}
    async with proxied.browser(f"::ffff:{PROXY}") as browser:
        await log_in(browser, "near", origin=NAME, **from_browser("10.1.2.3"))
        page = await browser.get("/action", params={"do": "wipe", "name": "broker-a"}, headers=headers)
        assert f"near (console) from 10.1.2.3 via {PROXY}:51234" in page.text
        done = await browser.post("/action", data=form_of(page.text), headers=headers)
        assert done.status_code == 200, done.text
    (event,) = await bed.events()
    assert (event.by.peer, event.by.via) == ("10.1.2.3", f"{PROXY}:51234")


async def test_what_a_proxy_passes_on_that_is_no_address_is_nobodys(proxied, bed):
    await bed.register(topics=["orders", "bills"])
    await proxied.until_seen((await bed.head()).seq)
    claim = "<b>10.1.2.3"
    async with proxied.browser(PROXY) as browser:
        answer = await log_in(browser, "near", status=401, origin=NAME, **from_browser(claim))
        assert "may do nothing from an unknown address" in answer.text
        await log_in(browser, "ops", origin=NAME, **from_browser(claim))
        page = await browser.get("/action", params={"do": "wipe", "name": "broker-a"}, headers=from_browser(claim))
        assert f"ops (console) from unknown via {PROXY}:51234" in page.text


async def test_each_browser_behind_a_proxy_has_tries_of_its_own(proxied):
    async with proxied.browser(PROXY) as browser:
        for _ in range(11):
            last = await browser.post("/login", data={"name": "ops", "secret": "x"},
                                      headers={**from_browser("10.1.1.1"), "origin": NAME})  # fmt: skip
        assert last.status_code == 429
        await log_in(browser, "ops", origin=NAME, **from_browser("10.1.1.2"))


async def test_an_origin_lets_an_action_through_where_the_proxy_asks_who_it_is(runner, store, bed, tmp_path):
    """Without a login."""
    await bed.register(topics=["orders", "bills"])
    async with open_site(store, tmp_path, reach=Reach(origins=(NAME,)), base=NAME, actions=True) as site:
        await site.until_seen((await bed.head()).seq)
        form = form_of(await site.get("/action", do="wipe", name="broker-a"))
        assert (await site.http.post("/action", data=form, headers={"origin": HERE})).status_code == 403
        assert (await site.http.post("/action", data=form, headers={"origin": NAME})).status_code == 200


async def test_below_a_path_every_step_of_the_login_stays_there(store, bed, tmp_path):
    await add_users(store)
    async with open_site(store, tmp_path, reach=Reach(login=True), root_path="/registry") as site:
        answer = await site.http.get("/registry/changes?kind=kv_put")
        assert answer.headers["location"] == "/registry/login?next=%2Fchanges%3Fkind%3Dkv_put"
        page = await site.http.get(answer.headers["location"])
        assert 'action="/registry/login"' in page.text
        form = {"name": "ops", "secret": secret_of("ops"), "next": "/changes?kind=kv_put"}
        answer = await site.http.post("/registry/login", data=form, headers={"origin": HERE})
        assert answer.headers["location"] == "/registry/changes?kind=kv_put"
        assert "Path=/registry" in answer.headers["set-cookie"]
        page = await site.http.get(answer.headers["location"])
        assert page.status_code == 200
        logout = form_of(page.text, "/registry/logout")
        answer = await site.http.post("/registry/logout", data=logout, headers={"origin": HERE})
        assert answer.headers["location"] == "/registry/login"


# the command


def test_over_tls_the_port_speaks_https_alone(runner, store, bed, redis_url, certificate, tmp_path):
    runner.run(bed.register(topics=["orders", "bills"]))
    runner.run(add_users(store))
    cert, key = certificate
    process = Running(redis_url, store.namespace, tmp_path, "--login", "--tls-cert", str(cert), "--tls-key", str(key))
    try:
        assert process.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(verify=context, base_url=process.url) as browser:
            form = {"name": "ops", "secret": secret_of("ops")}
            answer = browser.post("/login", data=form, headers={"origin": process.url})
            assert answer.headers["set-cookie"].startswith(f"__Host-mqconsole-{process.url.rpartition(':')[2]}=")
            assert "10.0.0.1:10911" in browser.get("/brokers").text
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(process.url.replace("https", "http"))
    finally:
        process.end()
    for text in (process.out, process.err):
        assert secret_of("ops") not in text


async def test_it_says_when_nobody_can_log_in_yet(store, bed, redis_url, tmp_path):
    process = Running(redis_url, store.namespace, tmp_path, "--login")
    try:
        assert f"nobody can log in yet: 'mqregistry auth user add --namespace {store.namespace} NAME " in process.err
        await PolicyStore(store).change(lambda policy: changes.add_user(policy, user("ops", Role.OPERATOR)))
        async with httpx.AsyncClient(base_url=process.url) as browser:
            form = {"name": "ops", "secret": secret_of("ops")}
            assert (await browser.post("/login", data=form, headers={"origin": process.url})).status_code == 303
    finally:
        process.end()


def test_the_options_are_checked_before_anything_starts():
    ended = subprocess.run(
        [sys.executable, "-m", "mqregistry", "console", "--redis", "redis://127.0.0.1:1", "--host", "0.0.0.0",
         "--login"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    assert re.search(r"--tls-cert and --tls-key, or --proxy", ended.stderr)
