"""The pictures and the recording of the pages: shown, small, and of commands that the tutorial's test plays."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from docs import record

from ..cli.process.test_readme import KNOWN
from ..cli.process.test_tutorial import settled
from ..console.screenshots import KEPT, PAGES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PICTURES = sorted(DOCS.rglob("*.png"))
MOST_BYTES = 150_000


def test_each_picture_is_one_that_the_script_takes_and_is_shown():
    assert {path.stem for path in PICTURES} == {f"{page}-{scheme}-{width}" for page in PAGES for scheme, width in KEPT}
    shown = (DOCS / "console.md").read_text(encoding="utf-8")
    assert [path.name for path in PICTURES if f"](console/{path.name})" not in shown] == []


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_are_small(path):
    assert path.stat().st_size <= MOST_BYTES
    with Image.open(path) as image:
        assert image.mode == "P"


@pytest.fixture(scope="module")
def events():
    header, *events = map(json.loads, (DOCS / "terminal" / "route.cast").read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, record.COLUMNS, record.ROWS)
    return events


@pytest.fixture(scope="module")
def text(events):
    return "".join(data for _, _, data in events).replace("\r", "")


def test_the_recording_shows_what_the_tutorial_shows(events, text):
    assert [kind for _, kind, _ in events] == ["o"] * len(events)
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    commands = [part.partition("\n")[0] for part in parts]
    assert commands[:3] == ["mqregistry brokers", "mqregistry route orders", "mqregistry route order"]
    for command in commands[:-1]:  # the last one is what Ctrl-C leaves
        assert KNOWN[tuple(shlex.split(command)[1:2])], command
    tutorial = set(settled((DOCS / "tutorial.md").read_text(encoding="utf-8")))
    for part in parts[:3]:
        assert {f"$ {settled(part)[0]}", *settled(part)[1:]} <= tutorial
    assert "No route info of this topic" in parts[3]


def test_the_screen_has_the_lines_of_the_recording_and_loads_nothing(text, tmp_path):
    record.write_svg(text, tmp_path / "again.svg")
    kept, again = ((folder / name).read_text(encoding="utf-8") for folder, name in
                   ((DOCS / "terminal", "route.svg"), (tmp_path, "again.svg")))  # fmt: skip
    assert shown(kept) == shown(again)
    assert "did you mean orders?" in shown(kept)
    assert "url(" not in kept.replace("url(#", "")
    assert "href" not in kept


def shown(svg):
    """The text that a picture shows, without its style."""
    return "".join(ElementTree.fromstring(re.sub(r"(?s)<style>.*?</style>", "", svg)).itertext()).replace("\xa0", " ")
