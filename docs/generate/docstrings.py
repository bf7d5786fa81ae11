"""Makes reStructuredText of our docstrings, for autodoc."""

from __future__ import annotations

import re

_ITEM = re.compile(r" *(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.+)")
_HEADING = re.compile(r"(?:Args|Raises|Returns):")


def to_rst(lines: list[str]) -> list[str]:
    """The lines of a docstring: ``name: text`` is an item of a list, and lines that stand deeper belong to it."""
    made: list[str] = []
    item: int | None = None  # the indentation of the item that is open
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        found = _ITEM.fullmatch(line)
        if found:
            made += [""] * (item is None) + [f"- ``{found[1]}``: {found[2]}"]
            item = indent
        elif item is not None and text and indent > item:
            made.append(f"  {text}")
        else:
            made += [""] * (item is not None) + (["", text, ""] if _HEADING.fullmatch(text) else [text])
            item = None
    return [*made, ""]
