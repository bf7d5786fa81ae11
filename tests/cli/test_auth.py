"""``mqregistry auth``: what it prints, and what then stands in Redis."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from mqregistry.auth.decide import decide
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Kind, Resource, Right
from mqregistry.cli import cli
from mqregistry.networks import parse_address
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.auth.refusals import RefusalStore
from mqregistry.store.store import Store

SECRET = "a-secret-of-mine"


@pytest.fixture
def auth(redis_url, namespace, in_store):
    in_store(lambda store: store.exists())

    def run(*arguments: str, expect: int = 0, stdin: str = "") -> Result:
        result = CliRunner(env={"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}).invoke(
            cli, ["auth", *arguments], input=stdin
        )
        assert result.exit_code == expect, result.output + repr(result.exception)
        return result

    return run


@pytest.fixture
def policy(in_store) -> Callable[[], Policy]:
    return lambda: in_store(lambda store: PolicyStore(store).read())


@pytest.fixture
def refused(in_store):
    """Notes a request that the rules refuse, as a front end does."""

    def note(user: str | None, right: Right, *resources: str, source: str = "10.9.9.9", count: int = 1) -> None:
        async def work(store: Store) -> None:
            known = await PolicyStore(store).read()
            places = [Resource(Kind(kind), name) for kind, name in (text.split(":") for text in resources)]
            decision = decide(known, user and known.users[user], right, places, parse_address(source))
            assert not decision.allowed
            noted = (RefusedKind.of(decision), count, Last(source, ""))
            await RefusalStore(store).note("fe1", Mode.OBSERVE, [noted])

        in_store(work)

    return note


def test_from_nothing_to_enforce(auth, policy):
    assert auth("mode").stdout.splitlines() == [
        "observe: everybody may do everything; what rules would refuse is noted ('auth observe')",
        "0 users; admins: none",
    ]
    assert "needs an admin first" in str(auth("mode", "enforce", expect=1).exception)
    added = auth("user", "add", "boss", "--role", "admin")
    assert (added.stdout, added.stderr) == ("boss: added\n", "give it a secret: mqregistry auth secret add boss\n")
    assert "needs an admin first" in str(auth("mode", "enforce", expect=1).exception)
    made = auth("secret", "add", "boss")
    assert re.fullmatch(r"[A-Za-z0-9]{32}\n", made.stdout), "the secret and nothing else, for a pipe"
    assert re.fullmatch(r"secret [0-9a-f]{12} of boss, not shown again\n", made.stderr)
    assert policy().users["boss"].secrets[0].key == made.stdout.strip()
    assert auth("mode", "enforce").stdout.splitlines() == [
        "enforce (was observe): what no rule allows is refused", "1 users; admins: boss",
    ]  # fmt: skip
    assert policy().mode is Mode.ENFORCE
    assert auth("mode", "off").stdout == "off: everybody may do everything\n"
    assert policy().mode is Mode.OFF


def test_users(auth):
    assert auth("user", "list").stderr.startswith("there is no user: mqregistry auth user add NAME --role admin")
    auth("user", "add", "shop", "--role", "client", "--from", "10.0.0.0/8", "--from", "192.0.2.7")
    auth("user", "add", "broker-a", "--role", "broker", "--cluster", "c1", "--broker", "broker-a*",
         "--certificate", "DNS:Broker-A", "--network", "10.1.0.0/16")  # fmt: skip
    lines = [line.split() for line in auth("user", "list").stdout.splitlines()]
    assert lines == [
        ["USER", "STATE", "ROLES", "RULES", "KNOWN", "BY", "SIGNED"],
        ["broker-a", "enabled", "broker", "2", "DNS:broker-a,", "10.1.0.0/16", "-"],
        ["shop", "enabled", "client", "-", "-", "-"],
    ]
    assert auth("user", "show", "broker-a").stdout.splitlines() == [
        "user        broker-a",
        "state       enabled",
        "roles       broker",
        "rule        allow register cluster:c1",
        "rule        allow register broker:broker-a*",
        "certificate DNS:broker-a",
        "network     10.1.0.0/16",
    ]
    assert auth("user", "disable", "shop").stdout == "shop: disabled\n"
    assert "from        10.0.0.0/8" in auth("user", "show", "shop").stdout
    assert "state       disabled" in auth("user", "show", "shop").stdout
    assert auth("user", "enable", "shop").stdout == "shop: enabled\n"
    assert auth("user", "set", "shop", "--role", "operator", "--clear", "from").stdout == "shop: changed\n"
    assert json.loads(auth("user", "show", "shop", "--json").stdout) == {
        "name": "shop", "enabled": True, "roles": ["operator"], "rules": [], "secrets": [], "certificates": [],
        "networks": [], "from": [],
    }  # fmt: skip
    assert auth("user", "remove", "shop").stdout == "shop: removed\n"
    assert [user["name"] for user in json.loads(auth("user", "list", "--json").stdout)] == ["broker-a"]
    assert "no user 'broker'; did you mean 'broker-a'?" in str(auth("user", "show", "broker", expect=1).exception)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("user", "add", "b", "--role", "broker"), "a broker may register only itself"),
        (("user", "add", "b", "--role", "broker", "--cluster", "c"), "a broker may register only itself"),
        (("user", "add", "b", "--cluster", "c", "--broker", "b"), "a broker may register only itself"),
        (("user", "add", "b", "--role", "god"), "is not one of"),
        (("user", "add", "b", "--network", "10.0.0.1/8"), "has host bits set"),
        (("user", "add", "b", "--from", "here"), "does not appear to be"),
        (("user", "add", "b", "--certificate", "b"), "expected URI:..., DNS:..."),
        (("user", "set", "b"), "say what to change"),
        (("user", "set", "b", "--from", "10.0.0.1", "--clear", "from"), "another option sets them"),
        (("allow", "b", "register"), "say on what: topic:NAME, cluster:NAME"),
        (("allow", "b", "fly", "*"), "'fly' is no right on everything"),
        (("allow", "b", "route", "queue:q"), "expected topic:NAME"),
        (("check", "b", "route", "t"), "expected topic:NAME"),
        (("check", "b", "all", "topic:t"), "is several rights: route, topic.write"),
        (("check", "b", "route", "topic:t", "--from", "10.0.0.0/8"), "expected an address"),
        (("mode", "strict"), "is not one of"),
    ],
)
def test_wrong_words_are_wrong_usage(auth, arguments, why):
    assert why in re.sub(r"\s+", " ", auth(*arguments, expect=2).stderr.replace("│", ""))


def test_rules(auth):
    auth("user", "add", "app")
    assert auth("allow", "app", "topic.write,route", "topic:orders-*", "topic:t").stdout.splitlines() == [
        "app: allow route,topic.write topic:orders-*", "app: allow route,topic.write topic:t",
    ]  # fmt: skip
    assert auth("allow", "app", "config.read").stdout.splitlines()[-1] == "app: allow config.read *"
    assert auth("deny", "app", "Pub", "Topic:orders-secret", "--from", "10.0.0.0/8").stdout.splitlines()[-1] == (
        "app: deny route topic:orders-secret --from 10.0.0.0/8"
    )
    left = auth("allow", "app", "topic.write", "topic:orders-*", "topic:t", "--remove").stdout.splitlines()
    assert left[:2] == ["app: allow route topic:orders-*", "app: allow route topic:t"]
    assert "has no rule 'deny route topic:t'; its rules: allow route topic:orders-*;" in str(
        auth("deny", "app", "route", "topic:t", "--remove", expect=1).exception
    )
    assert "perm can be on broker:NAME or cluster:NAME or '*', not on topic" in str(
        auth("allow", "app", "perm", "topic:t", expect=1).exception
    )
    assert auth("deny", "anonymous", "list", "*").stdout == "anonymous callers: deny list *\n"
    assert auth("deny", "anonymous", "list", "*", "--remove").stdout == "anonymous callers: no rules\n"
    assert json.loads(auth("allow", "app", "perm", "broker:b", "--json").stdout)["rules"][-1] == {
        "effect": "allow", "rights": ["perm"], "kind": "broker", "pattern": "b",
    }  # fmt: skip


def test_rotation_without_a_gap(auth, policy, in_store):
    auth("user", "add", "app", "--role", "client")
    first = auth("secret", "add", "app").stdout.strip()
    (old,) = [secret.id for secret in policy().users["app"].secrets]
    done = auth("secret", "add", "app", "--stdin", stdin=f"{SECRET}\n")
    assert done.stdout == ""
    assert f"{old} stays valid until: mqregistry auth secret drop app {old}" in done.stderr
    assert [secret.key for secret in policy().users["app"].secrets] == [first, SECRET]
    assert "two secrets already" in str(auth("secret", "add", "app", expect=1).exception)
    new = policy().users["app"].secrets[1].id
    in_store(lambda store: PolicyStore(store).note_used([("app", new)]))
    rows = [line.split() for line in auth("secret", "list").stdout.splitlines()]
    assert rows[0] == ["USER", "ID", "MADE", "LAST", "USED"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:]] == [("app", old, "-"), ("app", new, "ago")]
    found = json.loads(auth("secret", "list", "app", "--json").stdout)
    assert [(row["id"], row["last_used_ms"] is None) for row in found] == [(old, True), (new, False)]
    assert auth("secret", "drop", "app", old).stdout == f"secret {old} of app: dropped\n"
    assert [secret.id for secret in policy().users["app"].secrets] == [new]
    assert re.search(rf"secret      {new}, made .* ago, last used .* ago", auth("user", "show", "app").stdout)


def test_the_last_admin_stays(auth):
    auth("user", "add", "boss", "--role", "admin", "--certificate", "CN:boss")
    auth("mode", "enforce")
    for words in (("user", "remove", "boss"), ("user", "disable", "boss"), ("user", "set", "boss", "--role", "client"),
                  ("user", "set", "boss", "--clear", "certificates")):  # fmt: skip
        assert "would leave no admin" in str(auth(*words, expect=1).exception)


@pytest.mark.parametrize("stdin", ["short\n", "with blanks in\n", "\n", "ünprintable\n"])
def test_a_secret_that_is_none_is_refused_and_not_repeated(auth, stdin):
    auth("user", "add", "app")
    done = auth("secret", "add", "app", "--stdin", stdin=stdin, expect=1)
    assert "7 to 256 printable" in str(done.exception)
    assert not stdin.strip() or stdin.strip() not in str(done.exception) + done.output


@pytest.mark.parametrize("stdin", ["12345678", "fifteen-letters", "1234567123456712345671234567"])
def test_a_secret_that_is_easily_guessed_is_refused_and_not_repeated(auth, policy, stdin):
    auth("user", "add", "app")
    done = auth("secret", "add", "app", "--stdin", stdin=f"{stdin}\n", expect=1)
    assert "at least 16 characters, 8 of them different" in str(done.exception)
    assert stdin not in str(done.exception) + done.output
    assert not policy().users["app"].secrets


def test_check(auth):
    auth("user", "add", "broker-a", "--role", "broker", "--cluster", "c1", "--broker", "broker-a",
         "--network", "10.0.0.1")  # fmt: skip
    assert auth("check", "broker-a", "register", "cluster:c1", "broker:broker-a").stdout == "allowed\n"
    done = auth("check", "broker-a", "register", "cluster:c1", "broker:broker-b", "--from", "10.0.0.1", expect=1)
    assert done.stdout.splitlines() == [
        "not allowed: user broker-a has no right register on broker:broker-b from 10.0.0.1: no rule allows it",
        "mqregistry auth allow broker-a register broker:broker-b",
    ]
    assert done.stderr == "the mode is observe: the request is done anyway\n"
    found = json.loads(auth("check", "anonymous", "config.write", "--json", expect=1).stdout)
    assert (found["allowed"], found["reason"], found["mend"]) == (
        False, "no_rule", "mqregistry auth user add NAME --role admin",
    )  # fmt: skip
    assert auth("check", "anonymous", "route", "topic:t").stdout == "allowed\n"
    assert auth("check", "anonymous", "list", "*").stdout == "allowed\n"
    assert "no user 'nobody'" in str(auth("check", "nobody", "list", expect=1).exception)
    assert "say which right" in auth("check", "broker-a", expect=2).stderr


def test_check_tells_who_is_not_bound_to_an_address(auth):
    assert auth("check").stdout == "every user who may change something is bound to an address\n"
    as_broker = ("--role", "broker", "--cluster", "c1", "--broker")
    for name, more in (
        ("anywhere", (*as_broker, "anywhere")), ("bound", (*as_broker, "bound", "--from", "10.0.0.0/8")),
        ("by-network", (*as_broker, "by-network", "--network", "10.0.0.1")), ("reader", ("--role", "client")),
        ("ruled", ()),
    ):  # fmt: skip
        auth("user", "add", name, *more)
        if name != "by-network":
            auth("secret", "add", name)
    auth("allow", "ruled", "perm", "broker:b", "--from", "10.0.0.0/8")
    binds = "mqregistry auth user set anywhere --from NETWORK"
    assert auth("check").stdout == (
        f"anywhere is not bound to an address: its key may be used from anywhere: {binds}\n"
    )
    assert json.loads(auth("check", "--json").stdout) == {"not_bound": ["anywhere"], "mode": "observe"}
    done = auth("check", "anywhere", "register", "cluster:c1", "broker:anywhere")
    assert (done.stdout, binds in done.stderr) == ("allowed\n", True)
    assert auth("check", "bound", "register", "cluster:c1", "broker:bound", "--from", "10.0.0.1").stderr == ""
    auth("user", "set", "anywhere", "--from", "10.0.0.0/8")
    assert auth("check").stdout == "every user who may change something is bound to an address\n"


def test_observe_tells_who_would_be_refused_and_the_command_that_mends_it_works(auth, refused):
    assert auth("observe").stderr == "the mode is observe; no request was seen that the rules do not allow\n"
    auth("user", "add", "ops", "--role", "client")
    refused(None, Right.REGISTER, "cluster:c1", "broker:broker-a", count=7)
    refused("ops", Right.PERM, "broker:broker-a")
    lines = auth("observe").stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["ops", "perm", "broker:broker-a"], ["anonymous", "register", "cluster:c1"],
    ]  # fmt: skip
    assert " 10.9.9.9  no_rule      7 " in lines[2]
    mends = [row["mend"] for row in json.loads(auth("observe", "--json").stdout)]
    assert mends == [
        "mqregistry auth allow ops perm broker:broker-a",
        "mqregistry auth user add broker-a --role broker --cluster c1 --broker broker-a --network 10.9.9.9",
    ]
    assert auth("mode").stderr == "2 kinds of requests that were seen are not allowed: mqregistry auth observe\n"
    auth(*mends[0].split()[2:])
    done = auth("observe")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "1 refused before, allowed now\n"
    auth(*mends[1].split()[2:])
    assert auth("check", "broker-a", "register", "cluster:c1", "broker:broker-a").stdout == "allowed\n"
    assert auth("observe").stderr.endswith("2 refused before, allowed now\n"), "who comes from there is known"


def test_enforce_shows_what_would_be_refused_and_asks(auth, refused, policy, monkeypatch):
    auth("user", "add", "boss", "--role", "admin", "--certificate", "CN:boss")
    refused(None, Right.REGISTER, "cluster:c1", "broker:broker-a", count=7)
    for number in range(11):
        refused(None, Right.PERM, f"broker:b{number}", count=2)
    done = auth("mode", "enforce", expect=1)
    shown = done.stdout.splitlines()
    assert shown[:2] == [
        "12 kinds of requests that were seen would be refused:",
        "  anonymous: register on cluster:c1 broker:broker-a, 7 times, last from 10.9.9.9",
    ]
    assert (len(shown), shown[-1]) == (12, "  2 more: mqregistry auth observe")
    assert "no terminal to ask at" in str(done.output)
    auth("mode", "enforce", "--json", expect=2)
    assert policy().mode is Mode.OBSERVE
    assert json.loads(auth("mode", "enforce", "--json", "--yes").stdout)["refused_kinds"] == 12
    assert policy().mode is Mode.ENFORCE
    auth("mode", "enforce")  # nothing changes, and nothing is asked
    auth("mode", "observe")
    assert "would be refused" in auth("mode", "enforce", "--yes").stdout


def test_what_rules_allow_and_is_refused_all_the_same_is_shown(auth, in_store):
    """By TLS, the broker's address, or whose the broker is: with enforce these would be locked out."""
    auth("user", "add", "broker-a", "--role", "broker", "--cluster", "c1", "--broker", "broker-a")

    def note(reason: str) -> None:
        kind = RefusedKind("broker-a", Right.REGISTER, ("cluster:c1", "broker:broker-a"), reason)
        last = Last("10.9.9.9", "signature")
        in_store(lambda store: RefusalStore(store).note("fe", Mode.OBSERVE, [(kind, 1, last)]))

    for reason in ("needs_tls", "broker_addr", "not_owner"):
        note(reason)
    rows = {row["reason"]: row for row in json.loads(auth("observe", "--json").stdout)}
    assert not any(row["allowed_now"] for row in rows.values())
    assert {reason: row["mend"] for reason, row in rows.items()} == {
        "needs_tls": "mqregistry auth user set broker-a --from 10.9.9.9",
        "broker_addr": "mqregistry auth user set broker-a --from 10.9.9.9 --from BROKER_ADDRESS",
        "not_owner": "",
    }
    assert "3 kinds of requests that were seen are not allowed" in auth("mode").stderr
    auth(*rows["needs_tls"]["mend"].split()[2:])
    rows = {row["reason"]: row["allowed_now"] for row in json.loads(auth("observe", "--json").stdout)}
    assert rows == {"needs_tls": True, "broker_addr": False, "not_owner": False}


def test_observe_shows_the_last_ones_and_says_how_many_more_there_are(auth, refused):
    for number in range(5):
        refused(None, Right.PERM, f"broker:b{number}")
    done = auth("observe", "-n", "2")
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "3 more: -n shows more\n"


def test_names_from_peers_do_not_reach_the_terminal(auth, refused):
    refused(None, Right.PERM, "broker:x\x1b[2J\ny")
    lines = auth("observe").stdout.splitlines()
    assert len(lines) == 2
    assert r"broker:x\x1b[2J\ny" in lines[1]


def test_who_could_not_prove_who_he_is_is_shown(auth, in_store):
    kind = RefusedKind.unproved("ghost", "unknown_user")
    in_store(lambda store: RefusalStore(store).note("fe", Mode.OBSERVE, [(kind, 3, Last("10.0.0.9", ""))]))
    (row,) = auth("observe").stdout.splitlines()[1:]
    assert row.split()[:6] == ["ghost", "-", "-", "10.0.0.9", "unknown_user", "3"]


PLAIN = """
globalWhiteRemoteAddresses: [10.10.103.*]
dataVersion: [{counter: 1, timestamp: 1700000000000}]
accounts:
  - {accessKey: rocketmq2, secretKey: 1234567812345678, admin: true}
  - {accessKey: RocketMQ, secretKey: 0012345600123457, topicPerms: [topicA=DENY, "topicB=PUB|SUB"]}
"""


@pytest.fixture
def plain_acl(tmp_path):
    path = tmp_path / "plain_acl.yml"
    path.write_text(PLAIN)
    return str(path)


def test_import_of_a_brokers_file(auth, policy, plain_acl):
    dry = auth("import", plain_acl, "--dry-run")
    assert dry.stdout.endswith("2 would be added, 0 there already\n")
    assert policy().users == {}
    done = auth("import", plain_acl)
    assert done.stdout.splitlines() == [
        "rocketmq2: admin; with a secret",
        "RocketMQ: deny route topic:topicA; allow route topic:topicB; with a secret",
        "2 added, 0 there already",
    ]
    assert done.stderr.startswith("note: globalWhiteRemoteAddresses (10.10.103.*) is left out")
    users = policy().users
    assert {user.name: user.secrets[0].key for user in users.values()} == {
        "rocketmq2": "1234567812345678", "RocketMQ": "0012345600123457",
    }  # fmt: skip
    before = policy().revision
    assert auth("import", plain_acl).stdout.endswith("rocketmq2: exists already, not changed\nRocketMQ: exists already,"
                                                     " not changed\n0 added, 2 there already\n")  # fmt: skip
    assert policy().revision == before
    assert json.loads(auth("import", plain_acl, "--json").stdout)["there_already"] == ["rocketmq2", "RocketMQ"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.yml", "accounts: [{accessKey: a, secretKey: top-secret, admin: maybe}]", "admin is 'maybe'"),
        ("a.yml", "accounts: [{accessKey: 'a b', secretKey: top-secret}]", "has a blank"),
        ("a.yml", "accounts: [{accessKey: a, secretKey: top-secret", "it is no YAML: .*line 1"),
        ("a.json", '{"accounts": [{"accessKey": "top-secret', "cannot be read"),
        ("a.yml", "accounts: [{accessKey: a, secretKey: top}]", "7 to 256"),
        ("a.yml", "accounts: [{accessKey: a, secretKey: 12345678}]", "user 'a': .*at least 16 characters"),
        ("a.yml", "accounts: [{accessKey: a, secretKey: aaaaaaaaaaaaaaaaaaaa}]", "8 of them different"),
        ("a.yml", "x: 1", "neither 'accounts'"),
    ],
)
def test_a_file_that_cannot_be_taken_over_changes_nothing(auth, policy, tmp_path, name, text, why):
    (tmp_path / name).write_text(text)
    done = auth("import", str(tmp_path / name), expect=1)
    said = done.output + str(done.exception)
    assert re.search(why, said)
    assert "top-secret" not in said
    assert policy().users == {}


def test_no_command_prints_a_secret_but_the_one_that_makes_it(auth, plain_acl, caplog, policy):
    caplog.set_level(logging.DEBUG)
    said = ""
    auth("user", "add", "boss", "--role", "admin")
    made = auth("secret", "add", "boss").stdout.strip()
    auth("secret", "add", "boss", "--stdin", stdin=SECRET)
    said += auth("import", plain_acl).output
    for words in ("mode", "user list", "user show boss", "secret list", "check boss list", "observe",
                  "user set boss --network 10.0.0.0/8", "allow boss all *"):  # fmt: skip
        said += auth(*words.split()).output + auth(*words.split(), "--json").output
    for wrong in (("user", "add", "boss"), ("secret", "add", "boss"), ("secret", "drop", "boss", made[:4])):
        done = auth(*wrong, expect=1)
        said += done.output + str(done.exception) + repr(done.exc_info)
    said += caplog.text
    assert "boss" in said
    for secret in (made, SECRET, "00123456"):
        assert secret not in said
    assert made in {secret.key for secret in policy().users["boss"].secrets}


def test_exports_and_settings_have_no_secret(auth, command, redis_url, namespace):
    auth("user", "add", "boss", "--role", "admin")
    made = auth("secret", "add", "boss").stdout.strip()
    where = ("--redis", redis_url, "--namespace", namespace)
    for words in ("config export", "kv export", "streams --json", "watch --from-start -n 2 --json"):
        said = command(*words.split(), *where).output
        assert made not in said
    assert "auth_changed" in said
    assert made not in command("serve", "-p", *where).output
