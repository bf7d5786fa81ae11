"""The pictures and the recording of the pages: shown, small, and of commands that the tutorial's test plays."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from docs import badges, record

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


def test_the_screen_has_the_lines_of_the_recording_and_loads_nothing(events, tmp_path):
    record.write_svg([(at, data) for at, _, data in events], tmp_path / "again.svg")
    kept, again = ((folder / name).read_text(encoding="utf-8") for folder, name in
                   ((DOCS / "terminal", "route.svg"), (tmp_path, "again.svg")))  # fmt: skip
    assert kept == again
    assert "did you mean orders?" in shown(kept)
    assert "url(" not in kept.replace("url(#", "")
    assert "href" not in kept


def shown(svg):
    """The text that a picture shows, without its style."""
    return "".join(ElementTree.fromstring(re.sub(r"(?s)<style>.*?</style>", "", svg)).itertext()).replace("\xa0", " ")


def test_the_picture_of_the_terminal_comes_as_the_recording_did(events, text):
    """Its lines appear in their order, commands letter by letter, and nothing moves for who does not want it."""
    svg = (DOCS / "terminal" / "route.svg").read_text(encoding="utf-8")
    begins = [float(at) for at in re.findall(r"animation:\w+ (?:1ms|[\d.]+s steps\(\d+\)) ([\d.]+)s backwards", svg)]
    rows = sum(max(1, -(-len(line) // record.COLUMNS)) for line in text.removesuffix(record.PROMPT).splitlines())
    assert len(begins) >= rows
    assert begins == sorted(begins)
    assert 5 < begins[-1] < 30
    assert svg.count("steps(") == text.count("\n$ mqregistry") + text.startswith("$ mqregistry")
    assert "prefers-reduced-motion" in svg


def test_badges_say_what_the_project_says():
    kept = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "badges").iterdir()}
    assert set(kept) == set(badges.badges())
    for name, value in badges.badges().items():
        if name != "tests":
            assert kept[name] == badges.drawn(name, value), "python -m docs.badges docs/badges"
        assert f"](docs/badges/{name}.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_no_more_than_was_counted_and_measured():
    readme, results = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "bench/RESULTS.md"))
    counted = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+)\s(?:tests\.|functions</text>)",
               readme + (DOCS / "badges" / "tests.svg").read_text(encoding="utf-8"))]  # fmt: skip
    assert len(counted) == 2
    assert all(0.9 * badges.tests() <= number <= badges.tests() for number in counted)

    def measured(row):
        return float(re.search(rf"^\| {row}[^|]*\|[^|]*\| ([\d.]+) ×", results, re.M)[1])

    def ours_to_java(row):  # its bar may be about the echo server
        return float(
            re.search(rf"^\| {row}: lookups/s.*\n\| *\| no bar: × Java 5\.5\.0 \| ([\d.]+) ×", results, re.M)[1]
        )

    claim = re.search(
        r"([\d.]+) × the lookups of a warm Java NameServer\s5\.5\.0 over 64\s+connections, ([\d.]+) × with 16", readme
    )
    assert float(claim[1]) <= measured("S2, 64 × 1: lookups/s")
    assert float(claim[2]) <= ours_to_java("S2, 64 × 16")
    own, java = map(float, re.search(r"all S2 routes asked once.*?\n\|.*?\((\d+) against (\d+) MB\)", results).groups())
    assert "in half of its memory" in " ".join(readme.split())
    assert own / java < 0.55
    assert "0 of 8,634" in readme
    assert "8,634 messages" in (DOCS / "migrating.md").read_text(encoding="utf-8")


def test_the_readme_is_short_and_begins_with_what_debian_needs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") <= 130
    start = readme.partition("## Start\n\n")[2]
    assert start.startswith("On Debian and Ubuntu: `sudo apt install git make python3-venv`.")
    assert re.search(r"^## Licence$", readme, re.M)
    assert "](docs/terminal/route.svg)" in readme
    assert "](docs/console/" in readme
