"""The Python of docs/pipeline.md, on a lake that ``pipeline run`` has made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.test_run_advice import pipeline_run  # noqa: F401 - a fixture
from tests.pipeline.world import World

pytestmark = [pytest.mark.spark, pytest.mark.long]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")


class Kept:
    """A session that outlives the program."""

    def __init__(self, spark):
        self._spark = spark

    def __getattr__(self, name):
        return getattr(self._spark, name)

    def stop(self):
        pass


def test_the_program_of_the_page_runs(spark, monkeypatch, store, run, lake, pipeline_run, capsys):  # noqa: F811
    run(World(store, 21).run(20))
    pipeline_run()
    monkeypatch.setattr("mqregistry.pipeline.spark.session.open_session", lambda **_: Kept(spark))
    program, _ = re.findall(r"```python\n(.*?)```", PAGE, re.S)  # the other one reads the streams: test_source.py
    program = program.replace("~/.local/share/mqregistry/lake", lake.root).replace('default"', f'{store.namespace}"')
    capsys.readouterr()
    exec(program, {})
    told = capsys.readouterr().out
    assert "period_start" in told  # the frame of pandas
    assert re.search(r"\|\s*day\|count\|", told)
    assert re.search(r"\|\s*topic\|", told)
