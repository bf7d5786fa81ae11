"""The console shows the report that it makes of a lake."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")
pytest.importorskip("altair", reason="no altair: pip install -e '.[spark]'")

from mqregistry.cli.read.lake_tables import LakePast
from mqregistry.console.report import ReportSource
from mqregistry.pipeline.report.page import write
from tests.console.chromium import faults_of, needs_chromium
from tests.console.conftest import Running, chromium, filled, loop, open_site  # noqa: F401 - fixtures
from tests.pipeline.test_report import a_lake

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.usefixtures("empty_tables")]


async def test_the_report_is_made_from_the_lake_and_can_do_nothing_to_the_console(store, tmp_path, monkeypatch):
    # It is made in another process: what draws its charts holds Python's lock for seconds, in whichever thread.
    monkeypatch.delattr("mqregistry.pipeline.report.page.make")
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


@needs_chromium[0]
@needs_chromium[1]
def test_the_report_draws_its_charts_in_a_frame_that_reaches_nothing(chromium, filled, redis_url, tmp_path):  # noqa: F811
    write(a_lake(tmp_path / "lake"), "default", tmp_path / "report.html")
    process = Running(redis_url, filled.store.namespace, tmp_path, "--report", str(tmp_path / "report.html"))
    try:
        page = chromium.new_page(base_url=process.url, viewport={"width": 1280, "height": 900})
        page.set_default_timeout(60_000)
        faults = faults_of(page, process.url)
        page.goto("/report", wait_until="domcontentloaded")
        page.frame_locator("iframe").locator("body[data-charts=done]").wait_for()
        frame = next(one for one in page.frames if one.url.endswith("/report/page"))
        assert frame.locator(".chart svg").count() >= 5
        assert frame.evaluate("() => self.origin") == "null"
        assert frame.evaluate("() => { try { return parent.document.title } catch (error) { return error.name } }") == (
            "SecurityError"
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert faults == []
        page.close()
    finally:
        process.end()
