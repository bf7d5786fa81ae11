"""Shell completion of what is in the tables."""

import json

import pytest

from mqregistry.auth.changes import add_user
from mqregistry.auth.users import Secret, User
from mqregistry.store.auth.policies import PolicyStore


@pytest.fixture
def completed(finished, redis_url, namespace):
    """What bash is offered after these words; nothing may come on stderr, which is the user's terminal."""

    def complete(*words, redis=redis_url, **variables):
        variables = {
            "MQREGISTRY_REDIS": redis, "MQREGISTRY_NAMESPACE": namespace, "_MQREGISTRY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["mqregistry", *words]), "COMP_CWORD": str(len(words)), **variables,
        }  # fmt: skip
        done = finished(**{name: value for name, value in variables.items() if value is not None})
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    return complete


@pytest.fixture
def names(run, bed):
    run(bed.register())
    run(bed.kv.put("ns-1", "key-1", "v"))
    run(bed.kv.put("ns-1", "key-2", "v"))
    run(bed.kv.put("ns-2", "other", "v"))


def test_topics_broker_names_kv_namespaces_and_keys_are_completed(names, completed, command, redis_url, namespace):
    known = json.loads(command("topics", "--json", "--redis", redis_url, "--namespace", namespace).stdout)
    topics = [info["topic"] for info in known]
    assert topics
    assert completed("route", "") == completed("topics", "") == topics
    assert completed("route", topics[0][:1]) == [name for name in topics if name.startswith(topics[0][:1])]
    assert completed("route", "no-such") == []
    assert completed("broker", "run", "--namespace", namespace, "--name", "b") == ["broker-a"]
    assert completed("kv", "list", "ns") == completed("kv", "get", "ns") == ["ns-1", "ns-2"]
    assert completed("kv", "get", "ns-1", "") == ["key-1", "key-2"]


def test_users_secrets_rights_and_resources_are_completed(names, run, store, completed):
    policies = PolicyStore(store)
    run(policies.change(lambda policy: add_user(policy, User("shop", secrets=(Secret("id-1", "key-of-shop"),)))))
    assert completed("auth", "user", "show", "") == completed("auth", "allow", "s") == ["shop"]
    assert completed("auth", "secret", "drop", "shop", "") == ["id-1"]
    assert completed("auth", "allow", "shop", "kv") == ["kv.read", "kv.write"]
    assert completed("auth", "deny", "shop", "route,p") == ["route,perm"]
    assert completed("auth", "check", "shop", "route", "t") == ["topic:"]
    assert "broker:broker-a" in completed("auth", "allow", "shop", "perm", "broker:b")
    assert completed("auth", "mode", "e") == ["enforce"]
    assert completed("auth", "user", "add", "x", "--role", "a") == ["admin"]


def test_the_options_that_were_given_count(names, completed, redis_url, namespace):
    elsewhere = {"redis": "redis://127.0.0.1:1", "MQREGISTRY_NAMESPACE": "other"}
    named = ("kv", "list", "--redis", redis_url, "--namespace", namespace, "")
    assert completed(*named, **elsewhere) == ["ns-1", "ns-2"]


@pytest.mark.parametrize("redis", ["redis://127.0.0.1:1", "nonsense", None])
def test_without_a_registry_nothing_is_offered_and_nothing_is_said(completed, redis):
    assert completed("route", "", redis=redis) == []
    assert completed("kv", "get", "ns", "", redis=redis, MQREGISTRY_NONSENSE="1") == []
