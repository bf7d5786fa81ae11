"""Metrics, rules, their tests, runbook and dashboard are one thing: each names what the others have."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import subprocess
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest
import yaml

from mqregistry.cli.run.console import PORT
from mqregistry.console.app import PAGES
from mqregistry.events.changes import TYPES
from mqregistry.server.process.figures.metrics_table import METRICS, PREFIX

from .files import DEPLOY, ROOT

MONITORING = DEPLOY / "monitoring"
RULES = yaml.safe_load((MONITORING / "rules.yml").read_text())
TESTS = yaml.safe_load((MONITORING / "rules_test.yml").read_text())
EVERY_RULE = [rule for group in RULES["groups"] for rule in group["rules"]]
CHANGED = ("NoSweeper", "MassExpiry", "WorkerRestarting", "PipelineBehind", "CertificateExpires")
ALERTS = {rule["alert"]: rule for rule in EVERY_RULE if "alert" in rule}
RECORDED = {rule["record"] for rule in EVERY_RULE if "record" in rule}
RUNBOOK = (ROOT / "docs" / "alerts.md").read_text()
BOARD = json.loads((MONITORING / "dashboard.json").read_text())
FRONT = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
FOLDED = [panel for row in BOARD["panels"] for panel in row.get("panels", ())]


@pytest.fixture(scope="module")
def dashboard():
    return SimpleNamespace(**runpy.run_path(str(MONITORING / "dashboard.py")))


def series_of_the_table():
    for name, metric in METRICS.items():
        parts = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        yield from (PREFIX + name + part for part in parts)


def metric_of(series):
    name = series.removeprefix(PREFIX)
    return METRICS.get(name) or METRICS[re.sub("_(bucket|sum|count)$", "", name)]


def test_rules_use_metrics_labels_and_types_that_exist():
    known = {*series_of_the_table()}
    for rule in EVERY_RULE:
        used = set(re.findall(rf"\b{PREFIX}\w+", rule["expr"]))
        assert used <= known, rule
        assert set(re.findall(r"mqregistry:[\w:]+", rule["expr"])) <= RECORDED
        for types in re.findall(r'type=~"([^"]+)"', rule["expr"]):
            assert set(types.split("|")) <= TYPES
        labels = {label for name in used for label in metric_of(name).labels}
        labels |= {"le"} if any(name.endswith("_bucket") for name in used) else set()
        for by in re.findall(r"by \(([^)]*)\)", rule["expr"]):
            assert {label.strip() for label in by.split(",")} <= {*labels, "namespace", "instance"}, rule


def test_each_alert_has_a_section_of_the_runbook_and_no_section_is_left():
    assert re.findall(r"^## (\w+)$", RUNBOOK, re.M) == list(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
        section = RUNBOOK.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert "**What it says.**" in section, name
        assert "**What to do.**" in section, name


def test_the_runbook_says_how_its_addresses_become_absolute():
    """Its command, run on the rules: every alert leads to its section of the published page."""
    (command,) = re.findall(r"^\$ (sed .*) > rules\.yml$", RUNBOOK, re.M)
    done = subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    for group in yaml.safe_load(done.stdout)["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                wanted = f"https://docs.example/alerts.html#{rule['alert'].lower()}"
                assert rule["annotations"]["runbook_url"] == wanted


def test_the_runbook_names_metrics_that_exist():
    assert set(re.findall(rf"`({PREFIX}\w+)`", RUNBOOK)) <= {*series_of_the_table()}


def test_each_alert_fires_in_a_test_of_promtool():
    firing = {one["alertname"] for test in TESTS["tests"] for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert firing == set(ALERTS)


def test_the_dashboard_is_up_to_date(dashboard):
    assert dashboard.FILE.read_text() == dashboard.text(), "python deploy/monitoring/dashboard.py writes it"


def queries(panels):
    return [one["expr"] for panel in panels for one in panel["targets"]]


def test_every_metric_is_on_the_dashboard_and_in_one_folded_row_at_most(dashboard):
    folded = [name for names in dashboard.ROWS.values() for name in names]
    assert len({*folded}) == len(folded)
    assert {*folded} <= {*METRICS}
    in_front = {metric for metric in METRICS if re.search(rf"{PREFIX}{metric}\b", " ".join(queries(FRONT)))}
    assert {*folded, *in_front} == {*METRICS}
    for expr in queries([*FRONT, *FOLDED]):
        used = re.findall(rf"\b{PREFIX}(\w+)", expr)
        assert {PREFIX + name for name in used} <= {*series_of_the_table()}
        labels = {"namespace", "instance", "le", *(label for name in used for label in metric_of(PREFIX + name).labels)}
        asked = [*re.findall(r"(\w+)=~?\"", expr), *re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expr)))]
        assert {*asked} <= labels | {"alertname", "alertstate"}, expr


def test_twelve_panels_are_in_front_and_each_judges_what_it_shows():
    assert len(FRONT) == 12
    assert sum(panel["type"] == "stat" for panel in FRONT) >= 8
    for panel in FRONT:
        defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
        properties = [defaults, *({one["id"]: one["value"] for one in each["properties"]} for each in overrides)]
        named = [each["matcher"]["options"] for each in overrides]
        assert named == [target["legendFormat"] for target in panel["targets"][1:]], panel["title"]
        for one in properties:
            assert one["unit"] in ("short", "s", "reqps", "percentunit")
            steps = one["thresholds"]["steps"]
            assert steps[0]["value"] is None
            values = [step["value"] for step in steps[1:]]
            assert values == sorted(values) != [], panel["title"]
            assert {"green"} < {step["color"] for step in steps} <= {"green", "orange", "red"}
        assert panel["type"] == "stat" or defaults["custom"]["thresholdsStyle"] == {"mode": "line"}
        assert panel["description"]


def test_what_is_not_in_front_is_in_folded_rows():
    rows = BOARD["panels"][12:]
    assert [(row["type"], row["collapsed"]) for row in rows] == [("row", True)] * len(rows)
    assert all(row["panels"] for row in rows)
    assert len({panel["id"] for panel in [*FRONT, *rows, *FOLDED]}) == len([*FRONT, *rows, *FOLDED])
    heights = [(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"]) for one in (*FRONT, *rows)]
    assert max(end for _, end in heights[:12]) == heights[12][0]
    assert [start for start, _ in heights[12:]] == [*range(heights[12][0], heights[12][0] + len(rows))]


def test_no_two_panels_in_front_lie_on_each_other():
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in FRONT)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len({*cells}) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_panels_link_to_pages_of_the_console_at_the_moment_that_they_show():
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    assert variables["console"]["query"] == f"http://127.0.0.1:{PORT}"
    for panel in [*FRONT, *FOLDED]:
        (link,) = panel["fieldConfig"]["defaults"]["links"]
        variable, _, address = link["url"].partition("/")
        assert variable == "${console:raw}"
        path, _, query = address.partition("?")
        assert f"/{path}" in PAGES
        when = "${__to}" if panel["type"] == "stat" else "${__value.time}"
        assert parse_qs(query)["at"] == [when]
        assert link["title"]


def test_the_queries_of_the_dashboard_are_promql(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH: apt-get install prometheus")
    rules = [
        {"record": f"panel:{number}", "expr": expr.replace("$namespace", "a|b")}
        for number, expr in enumerate(queries([*FRONT, *FOLDED]))
    ]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", "panels.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert f"SUCCESS: {len(rules)} rules found" in done.stdout


def test_the_rules_do_as_their_tests_say_and_not_when_they_are_changed(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH: apt-get install prometheus")
    for name in ("rules.yml", "rules_test.yml"):
        shutil.copy(MONITORING / name, tmp_path)

    def run(*arguments):
        return subprocess.run([promtool, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run("check", "rules", "--lint-fatal", "rules.yml").returncode == 0
    done = run("test", "rules", "rules_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "rules.yml").read_text()
    for good, bad in (("== 0 or max", "== 7 or max"), (">= 3", ">= 5"), ("[15m]) > 2", "[15m]) > 9"),
                      ("_seconds) > 3600\n", "_seconds) > 9999\n"), ("< 14 * 86400", "< 13 * 86400")):  # fmt: skip
        assert text.count(good) == 1
        text = text.replace(good, bad)
    (tmp_path / "rules.yml").write_text(text)
    told = run("test", "rules", "rules_test.yml").stderr
    assert [name for name in CHANGED if f"alertname: {name}" not in told] == []
