"""Replaces the section of a page that a measurement wrote, between two marks, and leaves the rest of the page."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, name: str, text: str) -> None:
    """Replace the section that ``python -m bench NAME`` wrote; a page without the marks gets it at the end."""
    page = path.read_text() if path.exists() else ""
    begin, end = _marks(name)
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    before = f"{before.rstrip()}\n\n" if before.strip() else ""
    path.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after or chr(10)}")


def kept(path: Path, name: str) -> str:
    """The section of a measurement with its marks, for a program that writes the page again; "" if there is none."""
    page = path.read_text() if path.exists() else ""
    begin, end = _marks(name)
    if begin not in page or end not in page:
        return ""
    return f"{begin}{page.partition(begin)[2].partition(end)[0]}{end}\n"


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- measured: python -m bench {name} -->", f"<!-- end of {name} -->"
