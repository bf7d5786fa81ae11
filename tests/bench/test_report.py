"""Bars and report, from made-up measurements."""

from __future__ import annotations

import json

import pytest

from bench.compare import report
from bench.compare.bars import BARS, Bar, Figures, Missing
from bench.compare.plot import svg
from bench.load.shapes import S1
from bench.servers import marked

ABOUT = {
    "date": "2026-01-01 00:00 UTC", "commit": "abc", "machine": "m", "cores": {"server": [0], "generator": [1]},
    "load_average": [0.0], "python": "3", "java": "17", "redis": "v=6",
    "packages": {}, "rounds": 2, "rounds_planned": 2,
}  # fmt: skip


def record(peer, rate, wrong=(), **values):
    loads = {"S2 64x1": {"rate": rate, "p99_ms": 1e3 / rate, "cpu_us": 1.0}, **values}
    return {"peer": peer, "round": 1, "values": loads, "wrong": list(wrong)}


def bar(what, limit):
    return next(bar for bar in BARS if bar.what.startswith(what) and bar.limit == limit)


@pytest.mark.parametrize(("ours", "held"), [(401, True), (400, True), (399, False)])
def test_ratio_bar_holds_from_its_limit_on(ours, held):
    figures = Figures([record("ours", ours), record("Java 5.5.0", 100)])
    text, holds = bar("S2, 64 × 1", 4).judge(figures)
    assert holds is held
    assert f"{ours / 100:.2f} × ({ours} against 100 /s)" == text


def test_medians_count_and_not_means():
    figures = Figures([record("ours", rate) for rate in (400, 400, 1)] + [record("Java 5.5.0", 100)])
    assert bar("S2, 64 × 1", 4).judge(figures)[1] is True


def test_best_round_of_any_java_counts_where_the_bar_says_so():
    def small(peer, rate):
        return record(peer, 1, **{"S1 16x1": {"rate": rate, "p99_ms": 1, "cpu_us": 1}})

    javas = [small("Java 4.8.0", 10), small("Java 5.3.3", 20), small("Java 5.3.3", 90), small("Java 5.5.0", 30)]
    assert bar("S1, 16 × 1: lookups", 3).judge(Figures([small("ours", 300), *javas]))[1] is True
    assert bar("S1, 16 × 1: lookups", 3).judge(Figures([small("ours", 260), *javas]))[1] is False


def test_quantile_of_all_rounds_counts_for_the_lag():
    def lags(*lags_ms):
        return {"peer": "ours, changes", "round": 1, "wrong": [], "values": {"lag": {"lags_ms": lags_ms}}}

    few = Figures([lags(*[1.0] * 998), lags(90.0, 2.0)])
    assert [bar("a change's way", limit).judge(few) for limit in (3, 50)] == [("1 ms", True), ("90 ms", False)]


def test_growth_is_flat_up_to_its_limit():
    def size(name, lookup_us):
        return {"peer": "S8 1", "round": 1, "wrong": [], "values": {name: {"lookup_us": lookup_us}}}

    def judged(last):
        figures = Figures([size("S8-10k", 10), size("S8-160k", last)])
        return next(b for b in BARS if b.what.startswith("S8, CPU of a lookup: 160")).judge(figures)[1]

    assert [judged(last) for last in (12, 13, 14)] == [True, True, False]


def test_what_was_not_measured_neither_holds_nor_fails():
    text, holds = bar("S2, 64 × 1", 4).judge(Figures([record("ours", 400)]))
    assert holds is None
    assert "not measured (Java 5.5.0" in text
    with pytest.raises(Missing):
        Figures([]).median("ours", "S2 64x1", "rate")


def test_limit_in_a_unit_of_its_own():
    two_seconds = Bar("it", "≤ 2 s", lambda f: (f.median("ours", "S2 64x1", "rate"), 1), 2, False, "s")
    assert two_seconds.judge(Figures([record("ours", 1.9)])) == ("1.9 s", True)
    assert two_seconds.judge(Figures([record("ours", 2.1)])) == ("2.1 s", False)


def write(tmp_path, *records, **about):
    (tmp_path / "results").mkdir(exist_ok=True)
    data = {"about": {**ABOUT, **about}, "records": records}
    (tmp_path / "results" / "full.json").write_text(json.dumps(data))
    status = report.write(tmp_path, "full")
    return status, (tmp_path / "RESULTS.md").read_text()


def test_what_another_suite_wrote_into_the_page_stays(tmp_path):
    page = tmp_path / "RESULTS.md"
    for text in ("old figures", "figures of the console"):
        marked.put(page, "console", text)
    for rate in (500, 600):
        _, text = write(tmp_path, record("ours", rate), record("Java 5.5.0", 100))
    assert text.count("figures of the console") == 1
    assert "old figures" not in text
    assert text.index("6.00 × (600") < text.index("figures of the console")


def test_report_shows_ratio_and_bar_side_by_side(tmp_path):
    status, text = write(tmp_path, record("ours", 500), record("Java 5.5.0", 100))
    assert "| S2, 64 × 1: lookups/s | ≥ 4 × Java 5.5.0 | 5.00 × (500 against 100 /s) | OK |" in text
    assert "|  | ours | Java 5.5.0 |" in text
    assert status == 0


def test_missed_bar_and_wrong_answers_fail_the_run(tmp_path):
    status, text = write(tmp_path, record("ours", 300), record("Java 5.5.0", 100))
    assert "**MISSED**" in text
    assert status == 1


def test_wrong_answer_fails_the_run_however_fast(tmp_path):
    status, text = write(tmp_path, record("ours", 900, wrong=["topic-1: code 17"]), record("Java 5.5.0", 100))
    assert "- ours: topic-1: code 17" in text
    assert status == 1


def test_checkout_beside_ours_has_a_table_of_ratios_and_no_bars(tmp_path):
    other = "ours at abc"
    status, text = write(
        tmp_path,
        record("ours", 500), record(other, 400, wrong=["topic-1: code 17"]), record("Java 5.5.0", 100),
        record("ours", 500), record(other, 1000), beside=[other],
    )  # fmt: skip
    assert "### Ours beside ours at abc" in text
    assert "| S2, 64 × 1: lookups | 500/s | 700/s | **0.71** | 0.50 to 1.25 | more |" in text
    assert "| S2, 64 × 1: CPU of a lookup | 1 µs | 1 µs | **1.00** | 1.00 to 1.00 | less |" in text
    assert "| S2, 64 × 1: lookups/s | ≥ 4 × Java 5.5.0 | 5.00 × (500 against 100 /s) | OK |" in text
    assert "- ours at abc: topic-1: code 17" in text
    assert status == 0  # another checkout's failure is told, and is not ours


def test_growth_of_a_checkout_is_compared_and_stays_out_of_ours(tmp_path):
    size = {"topics": 10_000, "brokers": 8, "front_ends": 1, "heartbeat_ms": 1.0, "changed_topic_us": 1.0,
            "topic_bytes": 1.0, "asked_topic_bytes": 1.0}  # fmt: skip

    def growth(peer, lookup_us):
        return {"peer": peer, "round": 1, "wrong": [], "values": {"S8-10k": {**size, "lookup_us": lookup_us}}}

    _, text = write(tmp_path, growth("S8 1", 11), growth("S8 1, ours at abc", 22), beside=["ours at abc"])
    assert "| S8-10k, 1 front ends: CPU of a lookup | 11 µs | 22 µs | **0.50** |  | less |" in text
    assert text.count("| 10,000 | 8 | 1 |") == 1


def test_plot_has_a_line_for_each_server(tmp_path):
    ladder = {f"load {rate}": {"p50_ms": 1, "p99_ms": rate / 100} for rate in (1000, 2000)}
    write(tmp_path, record("ours", 500, **ladder), record("Java 5.5.0", 100, **ladder))
    plot = (tmp_path / "latency-full.svg").read_text()
    assert plot.count("<polyline") == 4
    assert "Java 5.5.0</text>" in plot
    assert svg({}, "nothing") == ""


def test_echo_body_is_as_long_as_a_route():
    assert 700 < S1.route_bytes() < 900
