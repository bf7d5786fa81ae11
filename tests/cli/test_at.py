"""``--at TIME``."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from mqregistry.operators.instants import parse_instant

NOW = datetime(2026, 11, 21, 14, 3, 30)


@pytest.fixture(autouse=True)
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T14:03", "2026-11-21T14:03:00+01:00"),
        ("2026-11-21 14:03:05.250", "2026-11-21T14:03:05.250+01:00"),
        ("2026-07-01T14:03", "2026-07-01T14:03:00+02:00"),
        ("2026-11-21T14:03Z", "2026-11-21T14:03:00+00:00"),
        ("2026-11-21T14:03:00-08:00", "2026-11-21T14:03:00-08:00"),
        ("2026-11-20", "2026-11-20T00:00:00+01:00"),
        ("14:03", "2026-11-21T14:03:00+01:00"),
        ("14:03:30", "2026-11-21T14:03:30+01:00"),
        ("14:03:30.001", "2026-11-20T14:03:30.001+01:00"),  # not yet today
        ("14:04", "2026-11-20T14:04:00+01:00"),
        ("9:00:00.5", "2026-11-21T09:00:00.500+01:00"),
        ("now", "2026-11-21T14:03:30+01:00"),
        ("-2h", "2026-11-21T12:03:30+01:00"),
        ("-1h30m", "2026-11-21T12:33:30+01:00"),
        ("-90s", "2026-11-21T14:02:00+01:00"),
        ("-2d", "2026-11-19T14:03:30+01:00"),
        ("-1.5s", "2026-11-21T14:03:28.500+01:00"),
        ("2026-10-25T02:30", "2026-10-25T02:30:00+02:00"),  # the first of two
    ],
)
def test_an_instant_as_people_say_it(text, expected):
    now_ms = round(NOW.timestamp() * 1000)
    assert parse_instant(text, now_ms=now_ms) == round(datetime.fromisoformat(expected).timestamp() * 1000)


@pytest.mark.parametrize("text", ["", "2h", "-2", "-2y", "25:00", "14:60", "yesterday", "2026-13-01", "14", "--2h"])
def test_what_is_no_time_is_refused_with_examples(text):
    with pytest.raises(ValueError, match=r"is no time: expected e\.g\. 2026-11-21T14:03"):
        parse_instant(text)


def test_the_command_says_what_it_expected(command):
    output = command("route", "t", "--at", "half past", expect=2).output
    assert "'half past' is no time" in output
