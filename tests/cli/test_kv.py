"""``mqregistry kv``: what it prints, and what then stands in Redis."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from mqregistry.cli import cli
from mqregistry.cli.write import confirm
from mqregistry.store.snapshot import read_head, read_tables

FILE = {"configTable": {"ORDER_TOPIC_CONFIG": {"t1": "broker-a:4", "t2": "broker-b:8"}, "EMPTY": {}}}


@pytest.fixture
def kv(redis_url, namespace, in_store):
    in_store(read_head)

    def run(*arguments: str, expect: int = 0) -> Result:
        result = CliRunner(env={"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}).invoke(
            cli, ["kv", *arguments]
        )
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def tables(in_store):
    return lambda: in_store(read_tables)[1].kv


@pytest.fixture
def seq(in_store):
    return lambda: in_store(read_head).seq


@pytest.fixture
def java_file(tmp_path):
    path = tmp_path / "kvConfig.json"
    path.write_text(json.dumps(FILE, indent=1))
    return path


def test_put_get_list_delete(kv, tables):
    def told(*arguments):
        """The last line: those before it show what is about to change."""
        return kv(*arguments, "--yes").stdout.splitlines()[-1]

    assert told("put", "ORDER_TOPIC_CONFIG", "t1", "broker-a:4") == "ORDER_TOPIC_CONFIG/t1 = broker-a:4"
    assert told("put", "ORDER_TOPIC_CONFIG", "t1", "broker-a:8").endswith("= broker-a:8 (was broker-a:4)")
    assert told("put", "ORDER_TOPIC_CONFIG", "t1", "broker-a:8").endswith("(as before)")
    assert kv("get", "ORDER_TOPIC_CONFIG", "t1").stdout == "broker-a:8\n"
    assert tables() == {"ORDER_TOPIC_CONFIG": {"t1": "broker-a:8"}}
    assert kv("list").stdout.splitlines()[1].split() == ["ORDER_TOPIC_CONFIG", "t1", "broker-a:8"]
    assert told("delete", "ORDER_TOPIC_CONFIG", "t1") == "ORDER_TOPIC_CONFIG/t1 deleted (was broker-a:8)"
    assert told("delete", "ORDER_TOPIC_CONFIG", "t1") == "ORDER_TOPIC_CONFIG/t1 was not there"
    assert tables() == {"ORDER_TOPIC_CONFIG": {}}
    assert kv("list").stderr == "no key is set\n"


def test_what_changes_is_shown_before_it_is_asked(kv, tables, monkeypatch):
    asked, answers = [], [False, True, True]
    monkeypatch.setattr(confirm, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(confirm.click, "confirm", lambda text: asked.append(text) or answers.pop(0))
    refused = kv("put", "ns", "k", "one", expect=1)
    assert refused.stdout.splitlines() == ["ns/k becomes one", "it is new"]
    assert "nothing was changed" in refused.stderr
    assert tables() == {}
    assert kv("put", "ns", "k", "one").stdout.splitlines()[-1] == "ns/k = one"
    assert kv("delete", "ns", "k").stdout.splitlines() == [
        "ns/k will be deleted", "its value is one", "ns/k deleted (was one)",
    ]  # fmt: skip
    assert tables() == {"ns": {}}
    kv("delete", "ns", "k")  # it is not there: there is nothing to ask
    assert len(asked) == 3


def test_without_a_terminal_and_without_yes_nothing_changes(kv, tables):
    kv("put", "ns", "k", "one", "--yes")
    for arguments in (("put", "ns", "k", "two"), ("delete", "ns", "k")):
        assert "--yes does it without asking" in kv(*arguments, expect=1).stderr
        assert "add --yes" in kv(*arguments, "--json", expect=2).stderr
    assert tables() == {"ns": {"k": "one"}}


def test_json(kv):
    assert json.loads(kv("put", "ns", "k", "ä=ß", "--json", "--yes").stdout) == {
        "kv_namespace": "ns", "key": "k", "value": "ä=ß", "before": None,
    }  # fmt: skip
    assert json.loads(kv("get", "ns", "k", "--json").stdout)["value"] == "ä=ß"
    assert json.loads(kv("list", "--json").stdout) == {"ns": {"k": "ä=ß"}}
    assert json.loads(kv("list", "ns", "--json").stdout) == {"ns": {"k": "ä=ß"}}
    assert json.loads(kv("delete", "ns", "k", "--json", "--yes").stdout)["before"] == "ä=ß"


def test_what_is_not_there_fails_and_names_what_is(kv):
    kv("put", "ORDER_TOPIC_CONFIG", "topic-1", "a:1", "--yes")
    assert "did you mean ORDER_TOPIC_CONFIG?" in kv("get", "ORDER_TOPIC", "t", expect=1).stderr
    assert "did you mean topic-1?" in kv("get", "ORDER_TOPIC_CONFIG", "topic1", expect=1).stderr
    assert "there is ORDER_TOPIC_CONFIG" in kv("list", "x", expect=1).stderr
    assert "must not be empty" in kv("put", "", "k", "v", "--yes", expect=2).stderr


def test_import_sets_what_differs_and_again_changes_nothing(kv, tables, seq, java_file):
    kv("put", "ORDER_TOPIC_CONFIG", "t2", "old:1", "--yes")
    kv("put", "OTHER", "k", "v", "--yes")
    assert kv("import", str(java_file)).stdout.splitlines() == [
        "EMPTY: an empty KV namespace",
        "ORDER_TOPIC_CONFIG/t1 = broker-a:4",
        "ORDER_TOPIC_CONFIG/t2 = broker-b:8 (was old:1)",
        "1 added, 1 changed, 0 the same; 1 not in the file: left as they are",
    ]
    assert tables() == FILE["configTable"] | {"OTHER": {"k": "v"}}
    before = seq()
    assert (
        kv("import", str(java_file)).stdout == "0 added, 0 changed, 2 the same; 1 not in the file: left as they are\n"
    )
    assert seq() == before


def test_import_dry_run_changes_nothing(kv, tables, java_file):
    assert kv("import", str(java_file), "--dry-run").stdout.endswith(
        "2 would be added, 0 would be changed, 0 the same\n"
    )
    plan = json.loads(kv("import", str(java_file), "--dry-run", "--json").stdout)
    assert plan == {
        "dry_run": True,
        "namespaces": ["EMPTY"],
        "changes": [
            {"kv_namespace": "ORDER_TOPIC_CONFIG", "key": "t1", "value": "broker-a:4", "before": None},
            {"kv_namespace": "ORDER_TOPIC_CONFIG", "key": "t2", "value": "broker-b:8", "before": None},
        ],
        "unchanged": 0,
        "only_here": 0,
    }
    assert tables() == {}


def test_import_takes_a_null_as_no_value(kv, tables, java_file):
    java_file.write_text('{"configTable":{"ns":{"k":null}}}')
    kv("import", str(java_file))
    assert tables() == {"ns": {}}


def test_import_takes_a_byte_order_mark(kv, tables, java_file):
    java_file.write_text('\ufeff{"configTable":{"ns":{"k":"v"}}}', encoding="utf-8")
    kv("import", str(java_file))
    assert tables() == {"ns": {"k": "v"}}


@pytest.mark.parametrize("value", ["x", "a", "a:", "a:x", "a:4 ", ":4", "a:-1", "a:4;;b:4", ""])
def test_an_order_configuration_that_no_client_can_read_is_refused(kv, tables, value):
    error = kv("put", "ORDER_TOPIC_CONFIG", "t", value, "--yes", expect=1).stderr
    assert "is like broker-a:4;broker-b:4" in error
    assert tables() == {}
    kv("put", "OTHER", "t", value, "--yes")


@pytest.mark.parametrize("value", ["broker-a:4", "broker-a:4;broker-b:8", "broker-a:4;"])
def test_an_order_configuration_is_stored(kv, tables, value):
    kv("put", "ORDER_TOPIC_CONFIG", "t", value, "--yes")
    assert tables() == {"ORDER_TOPIC_CONFIG": {"t": value}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no JSON"),
        ('{"configTable":', "is no JSON"),
        ("[]", "is no kvConfig.json"),
        ('{"table":{}}', "is no kvConfig.json"),
        ('{"configTable":[]}', "configTable is an array, expected an object"),
        ('{"configTable":{"ns":"x"}}', "configTable.ns is a text, expected an object"),
        ('{"configTable":{"ns":null}}', "configTable.ns is null, expected an object"),
        ('{"configTable":{"ns":{"k":1}}}', "configTable.ns.k is a number, expected a text"),
        ('{"configTable":{"ns":{"k":{}}}}', "configTable.ns.k is an object, expected a text"),
        ('{"configTable":{"":{"k":"v"}}}', "names must not be empty"),
    ],
)
def test_import_of_something_else_says_what_is_wrong_and_changes_nothing(kv, tables, java_file, content, said):
    java_file.write_text(content)
    error = kv("import", str(java_file), expect=1).stderr
    assert said in error
    assert str(java_file) in error
    assert tables() == {}


def test_import_of_a_file_that_is_not_there(kv, tmp_path):
    assert "does not exist" in kv("import", str(tmp_path / "none.json"), expect=2).stderr


def test_what_export_prints_import_takes_elsewhere(kv, tables, redis_url, namespace, tmp_path):
    kv("put", "ns", "t1", 'ä="ß"\n', "--yes")
    kv("put", "gone", "k", "v", "--yes")
    kv("delete", "gone", "k", "--yes")
    file = tmp_path / "kv.json"
    file.write_text(kv("export").stdout)
    assert json.loads(file.read_text()) == {"configTable": {"ns": {"t1": 'ä="ß"\n'}, "gone": {}}}
    before = tables()
    kv("delete", "ns", "t1", "--yes")
    kv("import", str(file))
    assert tables() == before


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"a": "v", "k": "x" * 65_537},
            "configTable.ns.k has 65537 bytes, at most 65536 are kept; nothing",
        ),
        ({f"k{i}": "" for i in range(20_001)}, "would have 20001 keys"),
        ({f"k{i}": "x" * 60_000 for i in range(280)}, "at most 20000 and 16777216 are kept; nothing was imported"),
        ({"a": "v", "k\n": "v"}, "has a control character"),
        ({"a": "v", "k" * 256: "v"}, "has 256 bytes, at most 255 are allowed"),
    ],
    ids=["value", "keys", "bytes", "control", "long name"],
)
def test_import_of_more_than_is_kept_imports_nothing(kv, tables, java_file, table, said):
    """B3: the first keys would have been stored, and the rest refused."""
    java_file.write_text(json.dumps({"configTable": {"ns": table}}))
    assert said in kv("import", str(java_file), expect=1).stderr
    assert tables() == {}


def test_put_refuses_what_is_not_kept(kv, tables):
    assert "has a control character; nothing was changed" in kv("put", "ns", "k\x1b", "v", "--yes", expect=1).stderr
    assert "at most 65536 bytes" in str(kv("put", "ns", "k", "x" * 65_537, "--yes", expect=1).exception)
    assert tables() == {}
