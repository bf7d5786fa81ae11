"""Code that cites a row of docs/semantics.md or docs/differences.md cites one that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    path
    for folder in ("registry", "worker", "pipeline", "lua", "tests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".lua") and path.parent != Path(__file__).parent
]
NUMBERS = r"(\d+(?:(?: to |-|, | and )\d+)*)"


def rows(page, pattern):
    return set(re.findall(pattern, (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M))


def cited(text):
    """(page, row) of each citation, such as ``docs/semantics.md 12 to 25`` or ``docs/differences.md D7``."""
    for version, numbers in re.findall(rf"docs/semantics\.md`*,? (version row )?{NUMBERS}", text):
        yield from (("version" if version else "semantics", number) for number in re.findall(r"\d+", numbers))
    yield from (("semantics", fact) for fact in re.findall(r"docs/semantics\.md`*,? (F\d+)", text))
    yield from (("differences", row) for row in re.findall(r"docs/differences\.md`*,? (D\d+(?:\.\d+)?)", text))


def known():
    numbered, versions, facts = re.split(
        "^## (?:Differences between versions|Byte-level facts)$",
        (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8"),
        flags=re.M,
    )
    return {
        "semantics": set(re.findall(r"^\| (\d+) \|", numbered, re.M)) | set(re.findall(r"^\| (F\d+) \|", facts, re.M)),
        "version": set(re.findall(r"^\| (\d+) \|", versions, re.M)),
        "differences": rows("differences.md", r"^\| (D\d+(?:\.\d+)?) \|"),
    }


@pytest.mark.parametrize("folder", ["registry", "worker", "pipeline", "lua", "tests"])
def test_every_row_that_code_cites_exists(folder):
    there = known()
    for path in FILES:
        if path.relative_to(ROOT).parts[0] == folder:
            for page, row in cited(path.read_text(encoding="utf-8")):
                assert row in there[page], f"{path.relative_to(ROOT)} cites row {row} of {page}"


def test_citations_are_found_and_wrong_ones_would_be_noticed():
    text = (
        "see ``docs/semantics.md`` 12 to 25, docs/semantics.md, version row 99; docs/semantics.md F1, "
        "docs/differences.md D0"
    )
    found = list(cited(text))
    assert found == [
        ("semantics", "12"), ("semantics", "25"), ("version", "99"), ("semantics", "F1"), ("differences", "D0"),
    ]  # fmt: skip
    assert [row for page, row in found if row not in known()[page]] == ["99", "D0"]
