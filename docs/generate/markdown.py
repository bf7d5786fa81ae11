"""Small pieces of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable


def plain(text: str) -> str:
    """Text that shows as it is, whatever Markdown would make of its characters."""
    return re.sub(r"([\\`*_{}\[\]<>|#~$])", r"\\\1", text)


def code(text: str) -> str:
    """A code span, also in a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def block(text: str, language: str = "text") -> str:
    """A code block."""
    return f"```{language}\n{text}\n```\n"


def definition(term: str, text: str) -> str:
    """A term and what it means: an entry of a list, which every forge shows."""
    return f"- {term} – {text}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; the cells are Markdown already."""
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
