"""The first sentence of the report: it names the worst finding, and says how it ended."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline.report.facts import ReportFacts, Spell
from mqregistry.pipeline.report.headlines import first_line

HOUR_MS = 3_600_000
# b is in these states, each for an hour
ENDINGS = {
    ("writable", "absent", "writable"): "b was away for 1h, from 1970-01-01 01:00 to 02:00.",
    ("writable", "read_only", "writable"): "b took no messages for 1h, from 1970-01-01 01:00 to 02:00.",
    ("read_only", "absent", "writable"): "b took no messages for 2h, from 1970-01-01 00:00 to 02:00.",
    (
        "writable",
        "writable",
        "read_only",
    ): "b has taken no messages since 1970-01-01 02:00: for 1h until 1970-01-01 03:00.",
    (
        "writable",
        "absent",
        "read_only",
    ): "b has taken no messages since 1970-01-01 01:00: for 2h until 1970-01-01 03:00.",
    ("writable", "writable", "absent"): "b has been away since 1970-01-01 02:00: for 1h until 1970-01-01 03:00.",
}


@pytest.mark.parametrize("states", ENDINGS, ids=" ".join)
def test_the_first_sentence_ends_with_words_that_fit(states):
    until_ms = len(states) * HOUR_MS
    facts = ReportFacts("default", "e", 0, until_ms, 0, until_ms, now={"a": "writable", "b": states[-1]})
    for hour, state in enumerate(states):
        facts.spells.append(Spell("c", "b", state, hour * HOUR_MS, (hour + 1) * HOUR_MS, hour == len(states) - 1))
    assert first_line(facts) == ENDINGS[states]


def test_without_a_broker_nothing_is_called_well():
    assert first_line(ReportFacts("default", "e", 0, 0, 0, 0)) == "No broker was registered for longer than an instant."
