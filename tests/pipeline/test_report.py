"""The report: what it says, and that it is one page which needs nothing else."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")
pytest.importorskip("altair", reason="no altair: pip install -e '.[spark]'")

from mqregistry.cli import cli
from mqregistry.pipeline.lake.lake import Lake, LakeError
from mqregistry.pipeline.report import charts, formats
from mqregistry.pipeline.report.facts import gather
from mqregistry.pipeline.report.headlines import headlines, unwritable
from mqregistry.pipeline.report.page import write
from tests.pipeline.gold_lake import HOUR, NOON, Written, addr, beat, event, queue, refresh

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("empty_tables")]
_MADE = {}


def a_lake(path, **shape):
    """A copy of the lake of this shape, which is made once."""
    key = str(sorted(shape.items()))
    if key not in _MADE:
        _MADE[key] = Path(tempfile.mkdtemp(prefix="mqreport")) / "lake"
        make_lake(_MADE[key], **shape)
    shutil.copytree(_MADE[key], path, dirs_exist_ok=True)
    return Lake(str(path))


@pytest.fixture(scope="module", autouse=True)
def made_lakes_are_removed():
    yield
    for path in _MADE.values():
        shutil.rmtree(path.parent)
    _MADE.clear()


def make_lake(path, *, brokers=3, hours=24, epoch="e1", start=NOON):
    """Broker b00 flaps twice and is away for 20 minutes, b01 is gone at the end, the others are well."""
    written, end = Written(Lake(str(path)), epoch=epoch), start + hours * HOUR
    lives = {f"b{number:02d}": [(start, None)] for number in range(brokers)}
    lives["b00"] = [
        (start, start + 60_000), (start + 61_000, start + 120_000), (start + 121_000, start + 180_000),
        (start + 180_000 + 1_200_000, None),
    ]  # fmt: skip
    if brokers > 1:
        lives["b01"] = [(start, end - 600_000)]
    addrs = [addr(name, *life) for name, life in lives.items() for life in life]
    queues = [
        queue(topic, name, *life, nums=32 if (name, topic) == ("b00", "uneven") else 8)
        for name, life in lives.items() for life in life for topic in ("orders", "uneven", "idle")
    ]  # fmt: skip
    written.silver(0, seq=100, ms=end, broker_addr=addrs, queue_data=queues)
    events = [event(1, start, "broker_registered", "b00"), event(2, start + 60_000, "broker_expired", "b00")]
    alarm = {"seq": 3, "ms": start + 5, "type": "stream_alarm", "alarm": "behind", "reader": "p", "stream": "changes"}
    written.bronze("changes", [*events, alarm])
    written.bronze("heartbeats", [beat(start + ms, "c1|b00:0") for ms in (0, 30_000, 60_000, 150_000)])
    entry = {"ms": start + 10, "front_end": "f", "since_ms": start, "found": {"orders": 9, "uneven": 1}}
    written.bronze("lookups", [{**entry, "missing": {"</script><b>": 5, "typo": 2}}])
    assert refresh(written)
    return written.lake


def specs(page):
    return json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL)[1])


def values(spec):
    """All rows that a plot was given."""
    found = list(spec.get("data", {}).get("values", []))
    for layer in spec.get("layer", []):
        found += values(layer)
    for rows in spec.get("datasets", {}).values():
        found += rows
    return found


def test_the_first_numbers_are_those_of_the_lake(tmp_path):
    facts = gather(a_lake(tmp_path), "default", "e1", None, None, 24 * HOUR)
    now, worst, longest, flapping, alarms = headlines(facts)
    assert (now.answer, now.tone, now.detail) == ("1 of 3 down", "bad", "absent: b01")
    assert worst.answer == "b00"
    assert longest.answer == "20m"
    assert longest.detail.startswith("b00, from 2026-01-01 12:03 to 12:23")
    assert (flapping.answer, flapping.detail) == ("1 broker", "b00 (2×)")
    assert (alarms.answer, alarms.tone) == ("1", "bad")
    assert facts.unused == ["idle"]
    assert [row["topic"] for row in facts.missing] == ["</script><b>", "typo"]
    assert facts.skewed[0]["topic"] == "uneven"
    assert sum(spell.length_ms for spell in unwritable(facts.spells) if spell.broker_name == "b00") == 1_202_000


def one_broker(path, *lives, until, name="b"):
    """A broker without a topic."""
    written = Written(Lake(str(path)))
    written.silver(0, seq=1, ms=until, broker_addr=[addr(name, *life) for life in lives])
    written.bronze("changes", [event(1, lives[0][0], "broker_registered", name)])
    refresh(written)
    return written.lake


@pytest.mark.long
def test_the_only_broker_that_came_this_very_moment_is_there(tmp_path):
    lake = one_broker(tmp_path / "lake", (NOON + 5, None), until=NOON + 5)
    facts = gather(lake, "default", "e1", None, None, 24 * HOUR)
    now, worst, longest, *_ = headlines(facts)
    assert (now.answer, now.detail) == ("1 of 1 not writable", "no writable queue: b")
    assert worst.detail == longest.detail == "no time has passed since the first broker came"
    write(lake, "default", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "No broker was registered for longer than an instant." in page
    assert "All figures of 1 broker<" in page
    assert "No topic had a write queue at the end. c1: 0 write queues, 1 broker." in page
    [panel] = [spec for name, spec in specs(page).items() if name.startswith("events")]
    assert panel["encoding"]["x"]["scale"]["domain"] == [NOON + 5, NOON + 60_005], "a minute, though none has passed"


def test_a_broker_that_left_before_the_report_is_named(tmp_path):
    written = Written(Lake(str(tmp_path)))
    start, end = NOON - 72 * HOUR, NOON
    written.silver(
        0, seq=9, ms=end,
        broker_addr=[addr("left", start, start + HOUR), addr("stays", start)],
        queue_data=[queue("t", "left", start, start + HOUR), queue("t", "stays", start)],
    )  # fmt: skip
    assert refresh(written)
    now = headlines(gather(written.lake, "default", "e1", None, None, 24 * HOUR))[0]
    assert (now.answer, now.tone) == ("writable", "good")
    assert now.detail.endswith("; left before this time and not back: left")
    facts = gather(written.lake, "default", "e1", start, None, 24 * HOUR)
    assert headlines(facts)[0].detail == "absent: left", "it left within this one"


@pytest.mark.long
def test_an_absence_over_midnight_ends_with_its_date(tmp_path):
    gone, back = NOON + 11 * HOUR, NOON + 13 * HOUR
    lake = one_broker(tmp_path, (NOON, gone), (back, None), until=back + HOUR)
    longest = headlines(gather(lake, "default", "e1", None, None, 24 * HOUR))[2]
    assert longest.detail == "b, since 2026-01-01 12:00, not over yet"
    [spell] = unwritable(gather(lake, "default", "e1", NOON, NOON + 14 * HOUR, 0).spells)
    assert spell.open
    written = Written(Lake(str(tmp_path / "other")))
    lives = [(NOON, gone), (back, None)]
    written.silver(
        0, seq=9, ms=back + HOUR,
        broker_addr=[addr("b", *life) for life in lives], queue_data=[queue("t", "b", *life) for life in lives],
    )  # fmt: skip
    assert refresh(written)
    longest = headlines(gather(written.lake, "default", "e1", None, None, 24 * HOUR))[2]
    assert longest.detail == "b, from 2026-01-01 23:00 to 2026-01-02 01:00"


@pytest.mark.long
def test_time_axes_hold_what_was_observed_and_no_empty_hour(tmp_path):
    lake = a_lake(tmp_path, hours=2, start=NOON + 600_000)
    facts = gather(lake, "default", "e1", None, None, 24 * HOUR)
    panels, _ = charts.events(facts)
    found = [charts.availability(facts)[0]["layer"][0], charts.heartbeats(facts)[0], *panels]
    assert len(found) == 4
    seen = [NOON + 600_000, NOON + 2 * HOUR + 600_000]
    for spec in found:
        assert spec["encoding"]["x"]["scale"]["domain"] == seen
        for row in values(spec):
            assert seen[0] <= row["from"] < row["to"] <= seen[1]


@pytest.mark.long
def test_bars_are_ranked_by_what_they_show_and_leave_room_for_their_labels(tmp_path):
    written = Written(Lake(str(tmp_path)))
    of = {"two": [16, 1], "eight": [18] + [8] * 7, "even": [8, 8], "one-of-five": [1, 1, 1, 1, 16]}
    written.silver(
        0, seq=9, ms=NOON + HOUR,
        broker_addr=[addr(f"b{number}", NOON) for number in range(8)],
        queue_data=[
            queue(topic, f"b{at}", NOON, nums=nums) for topic, row in of.items() for at, nums in enumerate(row)
        ],
    )  # fmt: skip
    assert refresh(written)
    facts = gather(written.lake, "default", "e1", None, None, 24 * HOUR)
    spec = charts.skew(facts)
    shown = [(row["topic"], row["max_mean"]) for row in values(spec["layer"][0])]
    assert [topic for topic, _ in shown] == ["one-of-five", "eight", "two"]
    assert shown == sorted(shown, key=lambda row: -row[1])
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1] >= 1.15 * shown[0][1]


def test_the_page_needs_nothing_from_elsewhere_and_nothing_breaks_out_of_it(tmp_path):
    out = tmp_path / "report.html"
    write(a_lake(tmp_path / "lake"), "default", out)
    page = out.read_text()
    assert not re.search(
        r'(?:src|href)\s*=\s*["\']?(?:https?:)?//', re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    )
    assert page.count("</script>") == 3, "the library, the plots' data, what draws them"
    assert "<b>" not in page.partition("<main>")[2].partition("<script>")[0]
    missing = next(spec for name, spec in specs(page).items() if name.startswith("missing"))
    assert any(row["topic"] == "</script><b>" for row in values(missing))
    assert "report.html" in [path.name for path in tmp_path.iterdir()]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".unfinished")]


@pytest.mark.long
def test_of_many_brokers_the_worst_are_shown_and_the_others_counted(tmp_path):
    facts = gather(a_lake(tmp_path, brokers=30), "default", "e1", None, None, 24 * HOUR)
    spec, note = charts.availability(facts)
    assert {row["broker"] for row in values(spec)} == {"b00", "b01"}
    assert note == "28 others were writable throughout."


@pytest.mark.parametrize(
    ("lake", "namespace", "said"),
    [
        ("none", "default", "it has none at all: is it another --lake"),
        ("lake", "other", "it has those of default"),
        ("file", "default", "it has none at all"),
    ],
)
def test_without_figures_it_is_an_error_and_the_page_stays_as_it_was(tmp_path, lake, namespace, said):
    a_lake(tmp_path / "lake", hours=2)
    (tmp_path / "file").touch()
    out = tmp_path / "report.html"
    out.write_text("the good page")
    options = ["--out", str(out), "--lake", str(tmp_path / lake), "--namespace", namespace]
    done = CliRunner().invoke(cli, ["pipeline", "report", *options])
    assert isinstance(done.exception, LakeError)
    assert f"has no figures of namespace '{namespace}'" in str(done.exception)
    assert said in str(done.exception)
    assert out.read_text() == "the good page"


BROKEN = r"is broken or gone: .*parquet.*'mqregistry pipeline backfill' writes"


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("parquet", b"PAR1 nonsense PAR1", BROKEN),
        ("parquet", b"", r"is broken or gone: .*only 0 bytes long; 'mqregistry pipeline backfill' writes"),
        ("json", b"{", r"Delta's log in .*_delta_log cannot be read: "),
    ],
)
def test_a_broken_file_of_figures_is_named_and_the_page_stays_as_it_was(tmp_path, kind, content, said):
    lake = a_lake(tmp_path / "lake", hours=2)
    for broken in [*(tmp_path / "lake").rglob(f"*.{kind}")]:
        broken.write_bytes(content)
    out = tmp_path / "report.html"
    out.write_text("the good page")
    with pytest.raises(LakeError, match=said):
        write(Lake(lake.root), "default", out)
    assert out.read_text() == "the good page"


def test_a_time_in_which_nothing_was_is_said(tmp_path):
    out = tmp_path / "report.html"
    lake = a_lake(tmp_path / "lake", hours=2)
    write(lake, "default", out, from_ms=NOON - 9 * HOUR, to_ms=NOON - 3 * HOUR)
    assert "Nothing was seen in this time" in out.read_text()


@pytest.mark.long
def test_every_epoch_has_its_part_the_newest_first(tmp_path):
    make_lake(tmp_path / "lake", epoch="first", hours=2)
    lake = make_lake(tmp_path / "lake", epoch="second", start=NOON + 3 * HOUR, hours=2)
    out = tmp_path / "report.html"
    assert [facts.epoch for facts in write(lake, "default", out)] == ["second", "first"]
    assert out.read_text().index("Epoch second") < out.read_text().index("Epoch first")


def test_the_command_writes_the_page(tmp_path):
    a_lake(tmp_path / "lake", hours=2)
    out = tmp_path / "r.html"
    arguments = ["pipeline", "report", "--lake", str(tmp_path / "lake"), "--out", str(out)]
    done = CliRunner().invoke(cli, [*arguments, "--from", "2026-01-01T12:30Z", "--to", "2026-01-01T13:00Z"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{out}: 1 epoch, ")
    assert "2026-01-01 12:00 to 2026-01-01 13:00 (1h)" in out.read_text()
    assert CliRunner().invoke(cli, [*arguments, "--from", "now", "--to", "-1h"]).exit_code == 2


def test_the_lake_is_where_the_environment_says_unless_an_option_says_otherwise(tmp_path):
    def place(*options, **environ):
        env = {"MQREGISTRY_LAKE": None, "XDG_DATA_HOME": None, "HOME": str(tmp_path / "home"), **environ}
        out = ["--out", str(tmp_path / "r.html")]
        return str(CliRunner().invoke(cli, ["pipeline", "report", *out, *options], env=env).exception)

    xdg = {"XDG_DATA_HOME": f"{tmp_path}/data"}
    assert f"{tmp_path}/home/.local/share/mqregistry/lake has no" in place()
    assert f"{tmp_path}/data/mqregistry/lake has no" in place(**xdg)
    assert f"{tmp_path}/named has no" in place(**xdg, MQREGISTRY_LAKE=f"{tmp_path}/named")
    assert f"{tmp_path}/given has no" in place("--lake", f"{tmp_path}/given", **xdg, MQREGISTRY_LAKE="/named")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1500, "1.5s"), (61_000, "1m 1s"), (7_980_000, "2h 13m"), (90_000_000, "1d 1h")],
)
def test_lengths_are_told_in_two_units(ms, text):
    assert formats.length(ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "100 %"), (0, "0 %"), (0.9999999, "99.999 %"), (0.5, "50 %"), (None, "–"), (1e-9, "0.001 %")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(value, text):
    assert formats.share(value) == text


def test_each_chart_has_the_question_that_it_answers_as_its_heading(tmp_path):
    write(a_lake(tmp_path / "lake"), "default", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    sections = re.findall(r"<section><h2>(.*?)</h2>(.*?)</section>", page, re.DOTALL)
    assert sum('class="chart"' in text for _, text in sections) >= 5
    assert [heading for heading, _ in sections if not heading.endswith("?")] == []
    heads = re.findall(r'<div class="q">(.*?)</div>', page)
    assert len(heads) == 5
    assert all(head.endswith("?") for head in heads)
