"""``compare``: sides that are the same, that differ, that are away; Redis, 4.x, many topics, metrics; and its usage."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.servers.processes import free_port
from mqregistry.cli.run.up import DEFAULTS
from mqregistry.model import BrokerRow, QueueData
from mqregistry.protocol.codes import VERSION_V5_5_0
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import open_existing
from tests.client.threads import serving_in_thread
from tests.compare.java_like import answer_as_java, tables_of
from tests.server.harness import FrontEnd, wait_until
from tests.server.serving import get

from .processes import Process
from .test_operators import example  # noqa: F401 (a fixture)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "comparing.md").read_text(encoding="utf-8")
AT_ONCE = ("--once", "--lasting", "0s")


@pytest.fixture
def java():
    """Starts fake Java NameServers; gives each with its tables."""
    with contextlib.ExitStack() as stack:

        def start(tables=None, **options):
            server = stack.enter_context(serving_in_thread())
            return server, answer_as_java(server, tables or tables_of(), **options)

        yield start


def told(result):
    return json.loads(result.stdout.splitlines()[-1])


def cells(result, sort="counted"):
    return {(one["kind"], one["name"], one["part"], one["at"])
            for one in told(result)["differences"] if one["sort"] == sort}  # fmt: skip


def test_sides_that_are_the_same(command, java):
    (one, _), (other, _) = java(), java()
    shown = command("compare", one.address, other.address, "--once").stdout.splitlines()
    assert [line.split("  ")[0] for line in shown[:3]] == ["SIDE", one.address, other.address]
    assert shown[1].split()[1:] == ["Java", "NameServer", "5.3.3", "1", "1", "read"]
    assert shown[3].endswith(" same")
    assert told(command("compare", f"{one.address};{other.address}", "--once", "--json"))["same"] is True


def test_an_up_and_a_serve_of_one_namespace_are_the_same(command, redis_url):
    """They have other defaults of what each process decides for itself."""
    namespace = f"t{secrets.token_hex(5)}"
    front_ends = [FrontEnd(redis_url, namespace), FrontEnd(redis_url, namespace, **DEFAULTS)]
    try:
        addresses = [f"127.0.0.1:{front_end.port}" for front_end in front_ends]
        assert told(command("compare", *addresses, *AT_ONCE, "--json"))["differences"] == []
    finally:
        for front_end in front_ends:
            front_end.close()


def test_without_once_it_says_that_it_goes_on(java):
    (one, _), (other, _) = java(), java()
    process = Process("compare", one.address, other.address, env=dict(os.environ))
    process.wait_for("same")
    assert process.end() == 0
    assert process.err == ("compares every 10 s and shows what changes, until Ctrl-C; --once ends with the result\n")


def test_what_differs_is_named_with_since_when_and_between_whom(command, java):
    (one, _), (other, tables) = java(), java(tables_of(["orders", "lonely"]))
    tables.set_queue_data("orders", "broker-a", QueueData(8, 8, 4))
    tables.kv["ORDER_TOPIC_CONFIG"] = {"orders": "broker-a:8"}
    began_ms = time.time() * 1000
    found = command("compare", one.address, other.address, "--once", "--lasting", "1s", "--json", expect=1)
    assert time.time() * 1000 - began_ms > 1000
    assert cells(found) == {
        ("topic", "orders", "perm", "broker-a"), ("topic", "lonely", "", ""),
        ("kv", "ORDER_TOPIC_CONFIG", "value", "orders"),
    }  # fmt: skip
    for difference in told(found)["differences"]:
        assert began_ms <= difference["since_ms"] <= told(found)["at_ms"] - 1000
        assert difference["between"] == [sorted([one.address, other.address])]
    text = command("compare", one.address, other.address, *AT_ONCE, expect=1).stdout
    assert "3 differences" in text
    assert f"  {one.address}: 6 RW\n  {other.address}: 4 R\n" in text
    assert f"  {one.address}: (not there)\n" in text


def test_the_page_shows_what_it_prints(command, java):
    """The block of docs/comparing.md with two Java NameServers, one of which lacks a broker."""
    (block,) = re.findall(r"^(SIDE.*\n.*\n.*\n.* 5 differences\n[^`]*)", PAGE, re.M)
    topics = ("orders", "payments", "refunds")
    whole = tables_of(topics, ("broker-a", "broker-b", "broker-x"), "DefaultCluster")
    stale = tables_of(topics, ("broker-a",), "DefaultCluster")
    stale.brokers["broker-x"] = whole.brokers["broker-x"]
    stale.clusters["DefaultCluster"].add("broker-x")
    for topic in topics:
        stale.set_queue_data(topic, "broker-x", QueueData(8, 8, 6))
    (one, _), (other, _) = java(whole), java(stale, version=VERSION_V5_5_0)
    shown = command("compare", one.address, other.address, *AT_ONCE, expect=1).stdout
    here = shown.replace(one.address, "127.0.0.1:9871").replace(other.address, "127.0.0.1:9872")
    varies = r"\d{4}-\d\d-\d\d [\d:.]+|\(\d+(?:\.\d+)?m?s\)| +(?=  \d|  TOPICS|  WHAT|  Java)"
    assert re.sub(varies, "_", here).split("\n") == re.sub(varies, "_", block).split("\n")


def test_a_change_on_its_way_is_no_difference(command, java):
    (one, _), (other, tables) = java(), java(tables_of(["orders", "lonely"]))
    usual, asked = other.answer, []

    async def answer(request):
        if (request.ext_fields or {}).get("topic") == "lonely":
            asked.append(request)
            if len(asked) == 2:  # when it is asked again, the topic is gone here, too
                tables.drop_queue_data("lonely", "broker-a")
        return await usual(request)

    other.answer = answer
    assert told(command("compare", one.address, other.address, "--once", "--json"))["counts"] == dict.fromkeys(
        ("counted", "young", "meant", "noise"), 0
    )


def test_a_side_that_is_away_is_no_difference(command, java):
    (one, _), away = java(), f"127.0.0.1:{free_port()}"
    found = command("compare", one.address, away, "--once", expect=3).stdout
    assert "not known: a side cannot be read" in found
    assert "connection refused" in found
    command("compare", one.address, "redis://127.0.0.1:1", "--once", "--timeout", "1", expect=3)
    command("compare", one.address, "no-such-host.invalid:1", "--once", expect=3)


def test_until_same_ends_as_soon_as_it_is(start, java):
    (one, tables), (other, _) = java(), java()
    tables.set_queue_data("late", "broker-a", QueueData(1, 1, 6))
    process = start("compare", one.address, other.address, "--until-same", "60s")
    wait_until(lambda: other.asked(), "it was asked")
    tables.drop_queue_data("late", "broker-a")
    assert process.wait() == 0
    _, *sides, state = process.out.splitlines()[:4]
    assert state.endswith(" same")
    assert len({side.split()[-3] for side in sides}) == 1, "the same number of topics"


def test_until_same_gives_up(command, java):
    (one, tables), (other, _) = java(), java()
    tables.set_queue_data("late", "broker-a", QueueData(1, 1, 6))
    found = command("compare", one.address, other.address, "--until-same", "100ms", expect=1).stdout
    assert "no difference has lasted so far" in found
    assert "topic late" in found


def test_java_servers_that_differ_among_themselves_do_not_blame_ours(command, java, redis_url, namespace, example):  # noqa: F811
    like_ours = tables_of([], [], "c1")
    for name, addrs in (("broker-a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}),
                        ("broker-b", {0: "10.0.0.3:10911", 1: "10.0.0.4:10911"})):  # fmt: skip
        like_ours.brokers[name] = BrokerRow("c1", addrs)
        like_ours.clusters.setdefault("c1", set()).add(name)
        like_ours.set_queue_data("topic1", name, QueueData(4, 4, 6))
    (good, _), (stale, _) = java(like_ours), java(tables_of(["topic1"]))
    ours = f"{redis_url}#{namespace}"
    assert told(command("compare", good.address, ours, "--once", "--json"))["same"]
    found = command("compare", good.address, stale.address, ours, *AT_ONCE, "--json")
    assert ("broker", "broker-b", "", "") in cells(found, "noise")
    assert ("topic", "topic1", "broker", "broker-b") in cells(found, "noise")
    text = command("compare", good.address, stale.address, ours, *AT_ONCE).stdout
    assert "in which Java NameServers differ among themselves, and ours agrees with one of them" in text
    assert f"  {stale.address}: (not there)" in text
    assert cells(command("compare", stale.address, ours, *AT_ONCE, "--json", expect=1))


def test_what_is_meant_is_named_by_its_row(command, java, redis_url, namespace, example):  # noqa: F811
    server, tables = java(tables_of([], []), config=b"serverWorkerThreads=16\nserverSelectorThreads=3\n")
    tables.brokers["empty"] = BrokerRow("c1", {})
    tables.clusters["c1"] = {"empty"}
    text = command("compare", server.address, f"{redis_url}#{namespace}", *AT_ONCE, expect=1).stdout
    assert "that docs/differences.md names\n" in text
    assert "  D16: broker empty, cluster c1: member empty\n" in text


def test_a_4x_server_is_found_out_and_asked_for_what_it_has(command, java):
    zoned = tables_of()
    zoned.brokers["broker-a"] = BrokerRow("c1", {0: "10.0.0.1:10911"}, "zone", True)
    (four, _), (five, _) = java(version=373), java(zoned)
    found = told(command("compare", four.address, five.address, "--once", "--json"))
    assert found["same"]
    assert [side["what"] for side in found["sides"]] == ["Java NameServer 4.8.0", "Java NameServer 5.3.3"]


def test_a_server_that_lists_no_topics_is_asked_for_those_of_the_others(command, java):
    (one, _), (other, tables) = java(), java()
    usual = other.answer

    async def answer(request):
        found = await usual(request)
        if request.code == 206:
            found.code = 1
        return found

    other.answer = answer
    assert told(command("compare", one.address, other.address, "--once", "--json"))["same"]
    tables.set_queue_data("orders", "broker-a", QueueData(1, 1, 6))
    found = command("compare", one.address, other.address, *AT_ONCE, "--json", expect=1)
    assert cells(found) == {("topic", "orders", "queues", "broker-a")}


def test_odd_names_are_asked_for_and_shown_so_that_they_do_nothing(command, java):
    odd = "pä\x1b[2Jy\n | ,;\u202e"
    (one, _), (other, tables) = java(tables_of([odd])), java(tables_of([odd]))
    tables.set_queue_data(odd, "broker-a", QueueData(1, 1, 6))
    found = command("compare", one.address, other.address, *AT_ONCE, "--json", expect=1)
    assert cells(found) == {("topic", odd, "queues", "broker-a")}
    text = command("compare", one.address, other.address, *AT_ONCE, expect=1).stdout
    assert "topic pä\\x1b[2Jy\\n | ,;\\u202e: queues at broker-a" in text


def test_thousands_of_topics_are_asked_for_over_one_connection(command, java):
    topics = [f"t{number}" for number in range(3_000)]
    (one, _), (other, tables) = java(tables_of(topics)), java(tables_of(topics))
    tables.set_queue_data("t77", "broker-a", QueueData(1, 1, 6))
    found = command("compare", one.address, other.address, *AT_ONCE, "--json", expect=1)
    assert cells(found) == {("topic", "t77", "queues", "broker-a")}
    assert one.accepted == 1
    assert len(one.asked()) < 3_010  # only what differs is asked for again


def documented(page):
    """(name, kind, help) of each metric of a page, as docs/comparing.md has them."""
    helps = dict(re.findall(r"^# HELP (\w+) (.*)$", page, re.M))
    return {(name, kind, helps[name]) for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", page, re.M)}


def rows_of_page(prefix):
    return set(re.findall(rf"^\| `({prefix}\w+)` \| (\w+) \| [^|]*\| (.*) \|$", PAGE, re.M))


def test_it_goes_on_tells_what_changes_and_is_an_exporter(start, java):
    (one, _), (other, tables) = java(), java()
    port = free_port()
    process = start("compare", one.address, other.address, "--every", "100ms", "--lasting", "0s", "--json",
                    "--listen", str(port))  # fmt: skip
    wait_until(lambda: process.out, "the first result")

    def samples():
        page = get(port, "/metrics").body.decode()
        return {(each.name.removeprefix("mqregistry_compare_"), *each.labels.values()): each.value
                for family in text_string_to_metric_families(page) for each in family.samples}  # fmt: skip

    assert samples()["same",] == 1
    tables.set_queue_data("orders", "broker-a", QueueData(1, 1, 6))
    wait_until(lambda: len(process.out.splitlines()) == 2, "it differs")
    assert documented(get(port, "/metrics").body.decode()) == rows_of_page("mqregistry_compare_")
    found = samples()
    assert (found["same",], found["differences", "topic", "counted"], found["side_up", one.address]) == (0, 1, 1)
    assert found["oldest_seconds",] > 0
    tables.set_queue_data("orders", "broker-a", QueueData(8, 8, 6))
    wait_until(lambda: len(process.out.splitlines()) == 3, "it is mended")
    assert [json.loads(line)["same"] for line in process.out.splitlines()] == [True, False, True]
    assert process.end() == 0


@pytest.mark.parametrize(("arguments", "said"), [
    (("a:b", "c:1"), "is no name server address"), (("127.0.0.1:1",), "name at least two"),
    (("127.0.0.1:1", "127.0.0.1:1"), "is named twice"), (("redis+foo://x", "127.0.0.1:1"), "is none of redis://"),
    (("lake@noon", "127.0.0.1:1"), "is no time"), ((), "Missing argument"),
    (("127.0.0.1:1", "127.0.0.1:2", "--lasting", "soon"), "is no length of time"),
    (("127.0.0.1:1", "127.0.0.1:2", "--once", "--until-same", "1s"), "give one of them"),
])  # fmt: skip
def test_wrong_usage_is_named(command, arguments, said):
    assert said in command("compare", *arguments, expect=2).stderr


def test_a_password_is_not_shown(command):
    said = command("compare", "redis://u:geheim@127.0.0.1:1", "127.0.0.1:1", "--once", "--timeout", "1", expect=3)
    assert "geheim" not in said.output


def test_the_past_is_a_side(command, monkeypatch, redis_url, namespace, run, example):  # noqa: F811
    async def read():
        async with open_existing(redis_url, namespace) as store:
            return (await read_tables(store))[1]

    asked, tables = [], run(read())

    def read_tables_at(at_ms, lake, flags, config_file):
        asked.append((lake, flags["namespace"]))
        return tables

    monkeypatch.setattr("mqregistry.cli.read.lake_tables.read_tables_at", read_tables_at)
    sides = (f"{redis_url}#{namespace}", f"lake@-2h#{namespace}")
    assert told(command("compare", *sides, "--lake", "there", "--once", "--json"))["same"]
    assert asked == [("there", namespace)]
    tables.drop_broker("broker-b")
    found = command("compare", *sides, *AT_ONCE, "--json", expect=1)
    assert ("broker", "broker-b", "", "") in cells(found)
