"""``make docs``: a site and man pages without a warning, no link is dead, and the reference is whole."""

from __future__ import annotations

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
from mqregistry.server.process.figures.table import METRICS, PREFIX
from mqregistry.store.scripts import load

from ..cli.process.test_readme import KNOWN
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
