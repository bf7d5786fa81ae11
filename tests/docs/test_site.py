"""``make docs``: a site and man pages without a warning, no link is dead, and the reference is whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import mqregistry.client
import mqregistry.testing
from mqregistry.config.settings import options_by_key
from mqregistry.events.changes import TYPES
from mqregistry.protocol.codes import RequestCode, ResponseCode
from mqregistry.server.process.figures.metrics_table import METRICS, PREFIX
from mqregistry.store.scripts import load

from ..cli.process.test_readme import KNOWN
from ..console.chromium import CHROMIUM, needs_chromium
from .test_redis_page import keys_in_lua

ROOT = Path(__file__).resolve().parents[2]
LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}

pytestmark = pytest.mark.skipif(
    not all(find_spec(name) for name in ("sphinx", "myst_parser", "furo")),
    reason="no Sphinx: pip install -e '.[docs]'",
)


class Page(HTMLParser):
    """What a page links to, what it loads, its anchors and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag in LOADED:
            self.loads.append(found.get(LOADED[tag]) or "")
        elif tag == "a":
            self.links.append(found.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("dt", "td", "p", "h2", "h3", "h4"):
            self.text += "\n"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the site and the man pages."""
    folder = tmp_path_factory.mktemp("docs")
    for builder in ("html", "man"):
        done = subprocess.run(
            [
                sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", "docs",
                "--doctree-dir", folder / "doctrees", "--builder", builder, ".", folder / builder,
            ],
            cwd=ROOT, capture_output=True, text=True, timeout=110,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(built):
    return {path: Page(path) for path in sorted((built / "html").rglob("*.html"))}


@pytest.mark.timeout(600)  # behind other processes of the tests
def test_no_link_is_dead_and_nothing_is_loaded_from_elsewhere(built, pages):
    assert len(pages) > 40
    for path, page in pages.items():
        for target in page.links + page.loads:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                assert target in page.links, f"{path.name} loads {target}"
                continue
            found = (path.parent / unquote(url.path)).resolve() if url.path else path
            found = found / "index.html" if found.is_dir() else found
            assert found.exists(), f"{path.name}: {target}"
            if url.fragment and found in pages:
                assert unquote(url.fragment) in pages[found].anchors, f"{path.name}: {target}"


def test_the_reference_is_whole(built, pages):
    def words(name: str) -> set[str]:
        return set(re.findall(r"[\w.:<>-]+", pages[built / "html" / "docs" / f"{name}.html"].text))

    def missing(name: str, wanted: set[str]) -> set[str]:
        return wanted - words(name)

    assert missing("reference/settings", set(options_by_key())) == set()
    codes = {member.name for kind in (RequestCode, ResponseCode) for member in kind}
    assert missing("reference/requests", codes | {str(code.value) for code in RequestCode}) == set()
    assert missing("reference/scripts", set(load())) == set()
    names = {word.rpartition(".")[2] for word in words("reference/python")}
    assert {*mqregistry.client.__all__, *mqregistry.testing.__all__} - names == set()
    assert missing("metrics", {PREFIX + name for name in METRICS}) == set()
    assert missing("events", set(TYPES)) == set()
    described = {word.split("<")[0] for word in words("redis")}
    assert keys_in_lua() - described == set()
    cli = pages[built / "html" / "docs" / "reference" / "cli.html"].text
    for path, command in KNOWN.items():
        assert f"mqregistry {' '.join(path)}" in cli
        shown = (param for param in command.params if not getattr(param, "hidden", False))
        assert {flag for param in shown for flag in param.opts if flag.startswith("-")} <= set(
            re.findall(r"-[\w-]+", cli)
        ), path


def test_man_pages_have_what_the_site_has(built):
    made = {path.name: path.read_text(encoding="utf-8") for path in (built / "man").iterdir()}
    assert set(made) == {
        "mqregistry.1", "mqregistry-settings.5", "mqregistry-redis.7", "mqregistry-events.7", "mqregistry-metrics.7",
    }  # fmt: skip
    assert made["mqregistry.1"].replace("\\", "").count("mqregistry kv put") >= 2  # the heading and its usage
    assert "tlsServerCertPath" in made["mqregistry-settings.5"]


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("license", "docs/index"), ("benchmark", "docs/index"), ("performance", "docs/index"),
        ("windows", "docs/index"), ("No route info of this topic", "docs/howto/troubleshooting"),
    ],
)  # fmt: skip
def test_the_search_finds_what_people_look_for(built, words, page):
    """As searchtools.js does it: every word that is no stop word, by its stem, in texts and titles."""
    from sphinx.search.en import SearchEnglish

    english = SearchEnglish({})
    text = (built / "html" / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))

    def found(word: str) -> set[int]:
        stem = english.stem(word.lower())
        every = (index[table].get(stem, []) for table in ("terms", "titleterms"))
        return {page for pages in every for page in ([pages] if isinstance(pages, int) else pages)}

    asked = [word for word in words.split() if word.lower() not in english.stopwords]
    pages = set.intersection(*map(found, asked))
    assert page in {index["docnames"][number] for number in pages}


def test_pages_have_an_icon_and_the_how_to_has_three_groups(built, pages):
    start = (built / "html" / "docs" / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<link rel="shortcut icon"\s+href="../_static/favicon.svg', start) or re.search(
        r'<link[^>]*rel="(?:shortcut )?icon"[^>]*favicon.svg', start
    )
    assert (built / "html" / "_static" / "favicon.svg").exists()
    groups = re.findall(r"^## (How to .*)$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.M)
    assert groups == ["How to start", "How to run it, day two", "How to integrate it"]
    for group in groups:
        assert f'<span class="caption-text">{group}</span>' in start


def test_each_cell_of_a_wide_table_names_its_column(built):
    page = (built / "html" / "docs" / "differences.html").read_text(encoding="utf-8")
    assert 'class="wide ' in page
    row = re.search(r"<tr[^>]*><td[^>]*><p>D1</p></td>.*?</tr>", page, re.S)[0]
    assert re.findall(r'data-label="([^"]*)"', row) == ["row", "the Java NameServer", "here", "why"]


@needs_chromium[0]
@needs_chromium[1]
@pytest.mark.parametrize("width", [1280, 400])
def test_why_something_differs_can_be_read(built, width):
    """The last column is on the screen, is wide enough for words, and nothing has to be scrolled sideways."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((built / "html" / "docs" / "differences.html").as_uri())
        cells = page.locator("table.wide").first.locator('td[data-label="why"]')
        assert cells.count() > 30
        for number in range(cells.count()):
            box = cells.nth(number).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["width"] >= 120
        hidden = "Array.from(document.querySelectorAll('.table-wrapper')).map(e => e.scrollWidth - e.clientWidth)"
        assert max(page.evaluate(hidden)) <= 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()
