"""A Sphinx extension: the directive ``generated``, and tables of contents from lists of links."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from . import PAGES
from .docstrings import to_rst

LEAST_COLUMNS = 2
"""Of a table that may be too wide for a narrow screen."""

MAPS = ("docs/index", "docs/decisions/README")
"""Pages whose links to other pages are the table of contents, section by section."""


class Generated(SphinxDirective):
    """``{generated} NAME``: the part of a page that :data:`PAGES` writes from the code."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write and parse it."""
        text = PAGES[self.arguments[0]]()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Put a hidden table of contents behind each section of a map, so that its list of links is written once."""
    if name not in MAPS:
        return
    sections = re.split(r"^(?=## )", source[0], flags=re.M)
    source[0] = "".join(section + _contents(section) for section in sections)


def _contents(section: str) -> str:
    links = list(dict.fromkeys(re.findall(r"\]\(([\w./-]+)\.md\)", section)))
    if not links:
        return ""
    title = re.match(r"## (.+)", section)
    caption = [f":caption: {title[1]}"] if title else []
    return "\n".join(["\n```{toctree}", ":hidden:", *caption, "", *links, "```\n\n"])


def read_docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Called by autodoc: changes each docstring in place; of a module only the first paragraph is for users."""
    lines[:] = to_rst(lines[: lines.index("")] if what == "module" and "" in lines else lines)


def skip_member(app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object) -> bool | None:
    """Called by autodoc: leave out members that say nothing but what Python or asyncio writes there."""
    said = getattr(thing, "__doc__", None) or ""
    return True if said.startswith(("Alias for field number", "Called by the event loop")) else None


def mark_wide_tables(
    app: Sphinx, name: str, template: str, context: dict[str, Any], tree: nodes.document | None
) -> None:
    """Called by Sphinx: have each cell of a table name its heading, for narrow screens."""
    if "body" in context:
        context["body"] = re.sub(r"<table .*?</table>", _wide_table, context["body"], flags=re.S)


def _wide_table(found: re.Match[str]) -> str:
    table = found[0]
    headings = [re.sub(r"<[^>]*>", "", text).strip() for text in re.findall(r"<th\b[^>]*>(.*?)</th>", table, re.S)]
    if len(headings) < LEAST_COLUMNS:
        return table

    def labelled(row: re.Match[str]) -> str:
        labels = iter(headings)
        return re.sub(r"<td\b", lambda _: f'<td data-label="{html.escape(next(labels, ""))}"', row[0])

    table = re.sub(r"<tr\b.*?</tr>", labelled, table, flags=re.S)
    return re.sub(r'^<table class="', '<table class="wide ', table)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("generated", Generated)
    app.connect("source-read", add_contents)
    app.connect("html-page-context", mark_wide_tables)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True}
