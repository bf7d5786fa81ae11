"""A Sphinx extension: tables of contents from lists of links, and tables for narrow screens."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LEAST_COLUMNS = 2
"""Of a table that may be too wide for a narrow screen."""

MAPS = ("docs/index", "docs/decisions/README")
"""Pages whose links to other pages are the table of contents, section by section."""


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
    app.connect("source-read", add_contents)
    app.connect("html-page-context", mark_wide_tables)
    return {"parallel_read_safe": True}
