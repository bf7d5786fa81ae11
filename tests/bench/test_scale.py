"""The tool for the limits, with a tiny fleet; and where its numbers go."""

from __future__ import annotations

import json

import pytest

from bench.limits import report as scale_report
from bench.limits import size
from bench.limits.command import keep
from bench.servers import marked


@pytest.mark.usefixtures("programs")
@pytest.mark.timeout(120)
def test_tiny_fleet_goes_through_every_step():
    said = []
    found = size.measure(said.append, brokers=8, topics_each=12, seconds=0.3, server_cores=[], other_cores=[])
    assert found["topics"] == 8 * 12 // size.WIDTH + len(size.DEFAULT_TOPICS)
    assert found["TBW102"]["bytes"] > 8 * 100
    assert found["rebuild"]["s"] > 0
    text = scale_report.render({"size-8": {**found, "about": ABOUT, "load": [1.0], "took_s": 2.0}})
    assert "8 brokers, 24 topics on 4 brokers each, 8 default topics on all" in text


ABOUT = {"date": "today", "commit": "abc", "machine": "m", "redis": "v=6"}
COSTS = {
    f"{what}_{name}": 1.0 for what in ("heartbeat", "changed")
    for name in ("rate", "redis_us", "front_end_us", "redis_load")
}  # fmt: skip
ONE_REDIS = {"rows": [{"front_ends": 1, **COSTS}], "scripts_a_second": 12345.0}


def test_numbers_are_renewed_and_the_prose_around_them_stays(tmp_path):
    path = tmp_path / "SCALE.md"
    path.write_text("# Before\n\n")
    marked.put(path, "scale", "old")
    path.write_text(path.read_text() + "\nafter\n")
    results = tmp_path / "results" / "scale.json"
    for date in ("yesterday", "today"):
        keep(results, "redis", {**ONE_REDIS, "about": {**ABOUT, "date": date}, "load": [1.0], "took_s": 3.0})
        scale_report.write(tmp_path)
    text = path.read_text()
    assert text.startswith("# Before\n\n")
    assert text.endswith("\n\nafter\n")
    assert "today" in text
    assert "old" not in text
    assert "yesterday" not in text
    assert "12,345/s" in text
    assert json.loads(results.read_text()).keys() == {"redis"}
