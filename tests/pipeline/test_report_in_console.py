"""The console shows the report that it makes of a lake."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")
pytest.importorskip("altair", reason="no altair: pip install -e '.[spark]'")

from mqregistry.cli.read.lake_tables import LakePast
from mqregistry.console.report import ReportSource
from tests.console.conftest import open_site
from tests.pipeline.test_report import a_lake

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.usefixtures("empty_tables")]


async def test_the_report_is_made_from_the_lake_and_can_do_nothing_to_the_console(store, tmp_path, monkeypatch):
    # It is made in another process: what draws its charts holds Python's lock for seconds, in whichever thread.
    monkeypatch.delattr("mqregistry.pipeline.report.make")
    lake = a_lake(tmp_path / "lake")
    async with open_site(store, tmp_path / "c", report=ReportSource(None, LakePast(lake.root, "default"))) as site:
        around = await site.get("/report")
        assert 'sandbox="allow-scripts"' in around
        assert "from the lake. It knows what happened until" in around
        answer = await site.http.get("/report/page")
        assert "Which brokers were away" in answer.text
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'")
        assert "frame-ancestors 'self'" in policy
        assert "allow-same-origin" not in policy + around
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await site.http.get("/report/page", headers={"host": "evil.example"})).status_code == 403
