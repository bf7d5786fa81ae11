"""``pipeline sql``: what it answers, how it shows that, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytest.importorskip("duckdb", reason="no duckdb: pip install -e '.[sql]'")
pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.cli import cli
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.sql.door import Door, SqlError
from mqregistry.pipeline.sql.views import ABOUT, LAYERED, views
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.gold_lake import Written, refresh

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "examples" / "past.ipynb"
HOUR_MS = 3_600_000
T0 = 1_780_264_800_000  # 2026-05-31 22:00 UTC: midnight in Berlin
WITHOUT = """
import sys

absent = {*sys.argv.pop(1).split()}

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent)
from mqregistry.cli import main
main()
"""
NAMES = {"broker_name": "broker-a", "cluster": "c1"}


def held(from_ms, to_ms, **columns):
    return {"from_ms": T0 + from_ms, "to_ms": None if to_ms is None else T0 + to_ms, "from_seq": 1,
            "to_seq": None if to_ms is None else 1, **columns}  # fmt: skip


@pytest.fixture(scope="module")
def lake(empty_tables, tmp_path_factory):
    """Two epochs; in the first one, of three hours, broker-a was away for half an hour."""
    lake = Lake(str(tmp_path_factory.mktemp("sql") / "lake"))
    for epoch, begin, hours in (("old", 0, 3), ("new", 4 * HOUR_MS, 30)):
        written = Written(lake, epoch=epoch)
        away = [(begin, begin + HOUR_MS), (begin + HOUR_MS * 3 // 2, None)] if epoch == "old" else [(begin, None)]
        addr = {**NAMES, "addr": f"10.0.0.{1 if epoch == 'old' else 2}:10911"}
        topic = {"topic": "t", "broker_name": "broker-a", "perm": 6, "write_queue_nums": 8, "read_queue_nums": 8}
        written.silver(
            0, seq=1, ms=T0 + begin + hours * HOUR_MS, begin_ms=T0 + begin, queue_data=[held(begin, None, **topic)],
            broker_addr=[held(*span, **addr) for span in away],
        )  # fmt: skip
        refresh(written)
    return lake


@pytest.fixture
def ask(lake, command):  # noqa: F811
    return lambda *arguments, **more: command("pipeline", "sql", *arguments, "--lake", lake.root, **more)


def test_every_view_answers_and_is_listed(lake, ask):
    door = Door(lake, "default")
    for name in views("default"):
        door.answer(f"SELECT * FROM {name}")
    assert {*ABOUT} | {*LAYERED} == {*views("default")}
    listed = ask().stdout
    assert all(f"\n{name} " in listed for name in ABOUT)


def test_views_know_no_epochs(lake):
    door = Door(lake, "default", time_zone="UTC")
    rows = door.answer("SELECT topic, addr FROM routes").to_pylist()
    assert rows == [{"topic": "t", "addr": "10.0.0.2:10911"}]
    rows = door.answer("SELECT valid_from, valid_to, ended_by FROM queue_data ORDER BY valid_from").to_pylist()
    assert [row["valid_to"] and row["valid_to"].isoformat() for row in rows] == ["2026-06-01T01:00:00+00:00", None]
    assert [row["ended_by"] for row in rows] == ["end_of_epoch", None]
    rows = door.answer("SELECT latest FROM epochs").to_pylist()
    assert [row["latest"] for row in rows] == [False, True]
    assert door.answer("SELECT count(*) AS n FROM silver.queue_data").to_pylist() == [{"n": 2}]


def test_changes_are_read_on_from_the_last_one(lake):
    door = Door(lake, "default", time_zone="UTC")
    feed = "SELECT epoch, moment::VARCHAR AS m, change, addr FROM changes_of_broker_addr WHERE seq > {} ORDER BY m"
    rows = [tuple(row.values()) for row in door.answer(feed.format(-1)).to_pylist()]
    assert rows == [
        ("old", "2026-05-31 22:00:00+00", "begins", "10.0.0.1:10911"),
        ("old", "2026-05-31 23:00:00+00", "ends", "10.0.0.1:10911"),
        ("old", "2026-05-31 23:30:00+00", "begins", "10.0.0.1:10911"),
        ("new", "2026-06-01 02:00:00+00", "begins", "10.0.0.2:10911"),
    ]
    assert door.answer(feed.format(1)).num_rows == 0


def test_minutes_make_up_hours(lake):
    columns = ("observed_ms", "present_ms", "writable_ms")
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in columns)
    hours = Door(lake, "default", time_zone="UTC").answer(
        f"SELECT time_bucket(INTERVAL 1 HOUR, period_start) AS hour, {sums} FROM broker_by_minute GROUP BY 1 ORDER BY 1"
    )
    wanted = Door(lake, "default", time_zone="UTC").answer(
        f"SELECT period_start AS hour, {', '.join(columns)} FROM broker_by_hour ORDER BY 1"
    )
    assert hours.to_pylist() == wanted.to_pylist()
    assert {row["present_ms"] for row in wanted.to_pylist()} == {HOUR_MS // 2, HOUR_MS}


def test_days_are_those_of_the_reader(lake):
    days = "SELECT CAST(day AS VARCHAR) AS day, addr FROM routes_by_day ORDER BY day"
    utc, berlin = (Door(lake, "default", time_zone=zone).answer(days).to_pylist() for zone in ("UTC", "Europe/Berlin"))
    assert utc == [{"day": f"2026-{day}", "addr": f"10.0.0.{last}:10911"}
                   for day, last in (("05-31", 1), ("06-01", 2), ("06-02", 2))]  # fmt: skip
    assert berlin == [{"day": f"2026-06-0{day}", "addr": "10.0.0.2:10911"} for day in (1, 2)]
    by_day = """SELECT CAST(date_trunc('day', period_start) AS DATE)::VARCHAR AS day,
                round(sum(present_ms) / sum(observed_ms), 4) AS share FROM broker_by_hour GROUP BY 1 ORDER BY 1"""
    rows = Door(lake, "default", time_zone="Europe/Berlin").answer(by_day).to_pylist()
    assert rows == [{"day": "2026-06-01", "share": round(22.5 / 23, 4)}, {"day": "2026-06-02", "share": 1.0}]


def test_a_table_json_and_csv_say_the_same(lake, ask):
    columns = "broker_name, period_start, outages, availability, sum(flaps) OVER () AS f"
    query = f"SELECT {columns} FROM broker_by_hour ORDER BY period_start LIMIT 2"
    text = ask(query, "--time-zone", "UTC").stdout
    assert text.splitlines()[:2] == [
        "BROKER NAME  PERIOD START                   OUTAGES  AVAILABILITY  F",
        "broker-a     2026-05-31 22:00:00.000+00:00        0           1.0  0",
    ]
    found = json.loads(ask(query, "--json", "--time-zone", "UTC").stdout)
    assert found[0]["period_start"] == "2026-05-31T22:00:00Z"
    assert (found[0]["availability"], found[0]["f"]) == (1.0, 0)
    of_stdin = ["pipeline", "sql", "-", "--csv", "--time-zone", "UTC", "--lake", lake.root]
    done = CliRunner().invoke(cli, of_stdin, input=query)
    assert done.exit_code == 0, done.output + repr(done.exception)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["period_start"] for row in rows] == ["2026-05-31T22:00:00+00:00", "2026-05-31T23:00:00+00:00"]
    assert rows[0]["availability"] == "1.0"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM brokers_by_day", "no table 'brokers_by_day'; did you mean broker_by_day"),
        ("SELECT * FROM silver.queue_dat", "did you mean queue_data or silver.queue_data"),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT topi FROM routes", '"topi" not found in FROM clause'),
        ("SELECT 1; SELECT 2", "one query is expected, which only reads"),
        ("CREATE TABLE x (a int)", "one query is expected, which only reads"),
        ("COPY (SELECT 1) TO '/tmp/x.csv'", "one query is expected, which only reads"),
        ("SET lock_configuration = false", "one query is expected, which only reads"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM read_text('/etc/passwd')", "disabled"),
        ("SELECT * FROM '/etc/passwd'", "no table"),
        ("SELECT * FROM glob('/*')", "disabled"),
        ("SELECT * FROM lake", "no table 'lake'"),  # a variable of this test
    ],
)
def test_what_it_refuses(lake, query, told):
    with pytest.raises(SqlError) as error:
        Door(lake, "default").answer(query)
    assert told in str(error.value)
    assert "Error:" not in str(error.value)


def test_wrong_arguments(ask, tmp_path, command, lake):  # noqa: F811
    assert "Unknown TimeZone" in str(ask("SELECT 1", "--time-zone", "Berlin", expect=1).exception)
    assert "give one of them" in ask("SELECT 1", "--json", "--csv", expect=2).output
    error = command("pipeline", "sql", "SELECT 1", "--lake", str(tmp_path), expect=1).exception
    assert "it is empty: is --lake right?" in str(error)


def test_the_extra_brings_all_that_a_question_needs(lake):
    """Asked where only mqregistry's dependencies and those of the extra can be imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left, brought = [*project["dependencies"], *project["optional-dependencies"]["sql"]], {"mqregistry"}
    while left:
        wanted = Requirement(left.pop())
        name = canonicalize_name(wanted.name)
        if name not in brought and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            brought.add(name)
            left += metadata.requires(name) or []
    of_module = metadata.packages_distributions().items()
    absent = [module for module, of in of_module if not brought & {canonicalize_name(name) for name in of}]
    assert "pandas" in absent
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, " ".join(absent), "pipeline", "sql", "--csv", "--lake", lake.root,
         "SELECT topic, addr FROM routes"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "topic,addr\nt,10.0.0.2:10911\n"), done.stderr


def test_the_notebook_of_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("altair", reason="no altair: pip install -e '.[spark]'")
    from tests.pipeline.test_report import a_lake

    monkeypatch.setenv("MQREGISTRY_LAKE", a_lake(tmp_path / "lake").root)
    monkeypatch.delenv("MQREGISTRY_NAMESPACE", raising=False)
    names: dict[str, object] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["topic"] == "idle"
    assert len(names["history"]) == 6, "it was four times at b00, and at the two others"
    assert names["availability"]["broker_name"].iloc[0] in ("b00", "b01")
    assert [(row.broker_name, row.flaps) for row in names["flapping"].itertuples()] == [("b00", 2)]
    assert '"field": "availability"' in names["picture"].to_json()
