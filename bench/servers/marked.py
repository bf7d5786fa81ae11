"""A section of a page that a measurement writes, between two marks: what stands around it is written by others."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, name: str, text: str) -> None:
    """Replace what ``python -m bench NAME`` wrote into a page; a page without its marks gets them at its end."""
    page = path.read_text() if path.exists() else ""
    begin, end = _marks(name)
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    before = f"{before.rstrip()}\n\n" if before.strip() else ""
    path.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after or chr(10)}")


def kept(path: Path, name: str) -> str:
    """The section of a measurement with its marks, for a program that writes the page again; empty: there is none."""
    page = path.read_text() if path.exists() else ""
    begin, end = _marks(name)
    if begin not in page or end not in page:
        return ""
    return f"{begin}{page.partition(begin)[2].partition(end)[0]}{end}\n"


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- measured: python -m bench {name} -->", f"<!-- end of {name} -->"
