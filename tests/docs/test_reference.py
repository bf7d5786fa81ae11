"""The reference says what the code says, also where no site is built: ``docs/reference/`` holds the generated text."""

from __future__ import annotations

import re

import pytest

from docs.generate import FOLDER, PARTS, written

PAGES = sorted(FOLDER.glob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_generated_parts_are_those_of_the_code(path):
    page = path.read_text(encoding="utf-8")
    assert page == written(page), f"{path.name} is old: python -m docs.generate writes it again"


def test_a_page_that_is_old_is_noticed():
    page = (FOLDER / "requests.md").read_text(encoding="utf-8")
    assert "`PUT_KV_CONFIG`" in page
    assert written(page.replace("`PUT_KV_CONFIG`", "`GONE`")) == page


def test_every_part_is_in_one_page_and_every_page_has_one():
    found = [re.findall(r"<!-- generated: (\w+) -->\n", path.read_text(encoding="utf-8")) for path in PAGES]
    assert all(found)
    assert sorted(name for names in found for name in names) == sorted(PARTS)
