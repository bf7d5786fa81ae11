"""Commands and outputs of pages that need no process of their own, on tables that hold what the page tells of.

tests/README.md ("What pages show") says which test runs the other blocks, and which are not run.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from mqregistry.auth.decide import decide
from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Kind, Resource, Right
from mqregistry.cli.help.entries import entry_of_text
from mqregistry.config.sources import OTHER_VARIABLES
from mqregistry.events.by import ANONYMOUS, By
from mqregistry.model import who
from mqregistry.networks import parse_address
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.auth.refusals import RefusalStore
from mqregistry.store.processes import PeerAddress, encode_peers
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.store.bed import Bed, acknowledge
from tests.store.test_processes import worker

ROOT = Path(__file__).resolve().parents[2]
# What is different each time: moments, durations, sizes, numbers of entries, secrets.
VARIES = (
    (r"\d{4}-\d\d-\d\d [\d:.]+ +\d+", "MOMENT"),
    (r"(?<![\w.:])(?:\d+[hm])?\d+(?:\.\d+)?(?:ms|s|m)(?: ago)?(?!\w)", "TIME"), (r"\d@\d+", "VERSION"),
    (r"\d+\.\d MiB|-  ", "SIZE "), (r"\d{13}-\d+", "ENTRY"), (r" +", " "),
)  # fmt: skip


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def steps(page: str, *, only: str = "") -> list[tuple[str, str]]:
    """(command, what it shows) of the console blocks of a page; of its section of this heading alone."""
    text = text_of(page)
    if only:
        text = re.search(rf"^#+ {only}\n(.*?)(?=^#|\Z)", text, re.M | re.S)[1]
    found = []
    for block in re.findall(r"^ *```console\n(.*?)^ *```$", text, re.M | re.S):
        lines = "\n".join(line.strip() for line in block.splitlines()).replace("\\\n", " ")
        found += re.findall(r"^\$ (.*)\n?((?:(?!\$ ).*(?:\n|\Z))*)", lines, re.M)
    return found


def settled(text: str) -> list[str]:
    for pattern, instead in VARIES:
        text = re.sub(pattern, instead, text)
    return [line.strip() for line in text.strip().splitlines()]


@pytest.fixture
def shell(command, env, redis_url, namespace, tmp_path):  # noqa: F811
    """Runs one line of a page on the namespace of the test; gives what a terminal shows. ``> FILE`` is done."""
    env |= {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace, "COLUMNS": "300"}

    def run(line: str, expect: int = 0) -> str:
        words = shlex.split(line, comments=True)
        assert words[0] == "mqregistry", line
        target = words[words.index(">") + 1] if ">" in words else ""
        words = words[1 : words.index(">")] if target else words[1:]
        words = [str(tmp_path / word) if re.search(r"\.(json|properties|yml)$", word) else word for word in words]
        done = command(*words, expect=expect)
        if target:
            (tmp_path / target).write_text(done.stdout)
        # click's runner leaves out what main() adds to an error
        return done.output + (f"See: mqregistry help {entry_of_text(done.output)}\n" if expect else "")

    return run


def test_readme_what_it_shows_of_a_broker(run, bed, shell):
    async def fill():
        r = await bed.register(
            "127.0.0.1:10911", cluster="DefaultCluster", topics={"TBW102": (8, 8, 7), "SELF_TEST_TOPIC": (1, 1, 6)}
        )
        peers = encode_peers([(who(r.cluster, r.broker_addr), PeerAddress("127.0.0.1:51234"))])
        await bed.leases.renew("w1", process=worker(), peers=peers)

    run(fill())
    shown = [
        (line, out) for line, out in steps("README.md") if line.startswith(("mqregistry brokers", "mqregistry route"))
    ]
    assert len(shown) == 3
    for line, out in shown:
        assert settled(shell(line, expect=int("Error" in out))) == settled(out)


def test_operating_who_took_the_route_of_a_topic(run, bed, shell):
    async def fill():
        await bed.register("10.0.0.1:10911", topics={"orders": (4, 8, 6), "bills": (4, 4, 6)})
        who_did = By(ANONYMOUS, None, "10.0.0.7:51234", front_end="ns1:9876")
        await Bed(bed.store.on_behalf_of(who_did)).routes.delete_topic("orders")

    run(fill())
    ((line, out),) = steps("docs/operating.md", only="Who changed it")
    assert settled(shell(line))[-3:] == settled(out)


def test_operating_kv_and_settings_are_carried_to_a_namespace_of_another_major(run, bed, shell, namespace):
    run(bed.kv.put("ns", "key", "value"))
    run(bed.kv.set_config({"orderMessageEnable": "true"}))
    lines = [line for line, _ in steps("docs/operating.md", only="Upgrading")]
    assert [line.split()[1] for line in lines] == [
        "MQREGISTRY_REDIS=redis://127.0.0.1:6379",
        "kv",
        "config",
        "serve",
        "kv",
        "config",
    ]
    for line in lines[1:3]:
        shell(line.replace("default", namespace))
    # as the front end of the new release makes it
    run(_made(bed.store.url, f"{namespace}2"))
    for line in lines[4:]:
        shell(line.replace("default", namespace))
    assert shell(f"mqregistry kv get ns key --namespace {namespace}2") == "value\n"
    assert shell(f"mqregistry config get orderMessageEnable --namespace {namespace}2") == "true\n"


async def _made(url: str, namespace: str) -> None:
    async with Store(url, namespace) as store:
        await store.connect()


def test_redis_the_streams_and_their_limits(run, bed, shell):
    async def fill():
        await bed.register()
        last = (await bed.head()).last_id
        await acknowledge(StreamStore(bed.store), "pipeline", {"changes": last})

    run(fill())
    ((_, out),) = [step for step in steps("docs/redis.md") if step[0] == "mqregistry streams"]

    def without_counts(text: str) -> list[str]:
        return [
            re.sub(r"(?<= )(?:\d+|-|SIZE|TIME|SIZE TIME)(?: (?:\d+|-|SIZE|TIME))* (?=\d+ or|TIME|ok)", "", line)
            for line in settled(text)
        ]

    assert without_counts(shell("mqregistry streams")) == without_counts(out)


def test_security_users_rules_and_what_would_be_refused(run, bed, shell, tmp_path):
    (tmp_path / "plain_acl.yml").write_text("accounts: []\n")
    page = "docs/security.md"

    async def refuse():
        known = await PolicyStore(bed.store).read()
        places = [Resource(Kind.CLUSTER, "c1"), Resource(Kind.BROKER, "broker-a")]
        decision = decide(known, None, Right.REGISTER, places, parse_address("10.1.2.3"))
        await RefusalStore(bed.store).note("fe1", Mode.OBSERVE, [(RefusedKind.of(decision), 12, Last("10.1.2.3", ""))])

    run(refuse())
    ((line, out),) = [step for step in steps(page) if "MENDED BY" in step[1]]
    assert settled(shell(line)) == settled(out)
    lines = [line for line, _ in steps(page)]
    rules = [line for line in lines if re.match(r"mqregistry auth (?:user|secret|import|allow|deny) ", line)]
    assert len(rules) == 25
    for line in rules[:21]:  # the last four are those of the way to enforce, which test_security_page.py goes
        shell(line)


def test_migrating_what_a_java_file_means_and_kv_both_ways(run, bed, shell, tmp_path):
    there, back = (steps("docs/migrating.md", only=heading) for heading in ("To mqregistry", "Back"))
    config = tmp_path / "namesrv.properties"
    ((line, out),) = [step for step in there if step[0].endswith(" -p")]
    config.write_text("kvConfigPath=/root/namesrv/kvConfig.json\nserverWorkerThreads=8\n")
    assert set(out.splitlines()) < set(shell(line).splitlines())
    run(bed.kv.put("ns", "key", "value"))
    kept = [line for line, _ in back if line.startswith("mqregistry ")]
    assert len(kept) == 2
    for line in kept:
        shell(line)
    run(bed.kv.delete("ns", "key"))
    taken = [line for line, _ in there if line.startswith("mqregistry kv ")]
    assert len(taken) == 3
    assert "value" in [shell(line) for line in taken][-1]


def test_kubernetes_values_fit_the_chart():
    values, compose = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text_of("docs/kubernetes.md"), re.S))
    chart = ROOT / "deploy" / "helm" / "mqregistry"
    jsonschema.validate(values, yaml.safe_load((chart / "values.schema.json").read_text()))
    known = yaml.safe_load((chart / "values.yaml").read_text())
    sets = [
        word for line, _ in steps("docs/kubernetes.md") for word in shlex.split(line) if "=" in word and "." in word
    ]
    for path in [*(word.partition("=")[0] for word in sets if not word.startswith("--")), *values]:
        found = known
        for name in path.split("."):
            found = found[name]
    (service,) = compose.values()
    assert service["command"] == "sh mqnamesrv"


def test_operating_prometheus_finds_the_labels_that_the_page_names():
    blocks = list(map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text_of("docs/operating.md"), re.S)))
    assert len(blocks) == 2
    source = (ROOT / "registry" / "server" / "process" / "known_fleet.py").read_text()
    labels = {label for one in blocks[0]["scrape_configs"][0]["relabel_configs"] for label in one["source_labels"]}
    assert labels
    for label in labels:
        assert label in source or f'"{label.removeprefix("__meta_mqregistry_")}"' in source, label


def test_settings_every_variable_that_is_no_setting_is_told():
    named = set(re.findall(r"MQREGISTRY_\w+", text_of("docs/reference/settings.md")))
    assert {name for name in OTHER_VARIABLES if not re.search("CACHE|INTEROP", name)} <= named
