"""Every repository path and every relative link that a page names exists, and pages cite nothing outside of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "deploy/*.md", "tests/**/README.md")
    for path in ROOT.glob(pattern)
)
FOLDERS = "bench|deploy|docs|lua|pipeline|registry|src|tests|worker"
CODE = re.compile(r"```.*?```", re.S)
# What a run of the tests or measurements makes, and git does not keep.
MADE = ("bench/results/",)


def name(page):
    return str(page.relative_to(ROOT))


def named_paths(text):
    """Words of code spans and code blocks that begin with one of our folders."""
    spans = [*re.findall(r"`([^`\n]+)`", CODE.sub("", text)), *CODE.findall(text)]
    for word in " ".join(spans).replace('"', " ").split():
        if re.match(rf"(?:{FOLDERS})/[\w./*:-]+\Z", word.rstrip(".,;:)")):
            yield word.rstrip(".,;:)")


def exists(named):
    path, _, test = named.partition("::")
    if test:  # docs/differences.md names tests by their path below tests/
        files = [file for file in (ROOT / path, ROOT / "tests" / path) if file.is_file()]
        return any(re.search(rf"^(?:async )?def {test}\(", file.read_text(encoding="utf-8"), re.M) for file in files)
    return path.startswith(MADE) or (ROOT / path).exists() or any(ROOT.glob(path))


def slugs(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_path_that_a_page_names_exists(page):
    assert [path for path in named_paths(page.read_text(encoding="utf-8")) if not exists(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert not anchor or anchor in slugs(found), target


def test_paths_are_found_and_a_wrong_one_would_be_noticed():
    text = "`lua/nothing.lua`, `registry/model.py`\n```sh\npytest tests/docs/test_links.py::test_no_such\n```\n"
    assert list(named_paths(text)) == ["lua/nothing.lua", "registry/model.py", "tests/docs/test_links.py::test_no_such"]
    assert [exists(path) for path in named_paths(text)] == [False, True, False]


def test_every_page_of_docs_can_be_found_from_the_readme():
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            found = (page.parent / target).resolve()
            if found.suffix == ".md" and found.is_file():
                ahead.append(found)
    assert [name(page) for page in PAGES if name(page).startswith("docs/") and page not in seen] == []


def test_rows_of_the_semantics_keep_their_numbers():
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    rows, versions, _ = re.split("^## (?:Differences between versions|Byte-level facts)$", text, flags=re.M)
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", rows, re.M)] == list(range(1, 41))
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", versions, re.M)] == list(range(1, 27))
