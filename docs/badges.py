"""Draws the badges of the README as SVG files: ``python -m docs.badges docs/badges`` (make pictures)."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHAR_PX = 7
PAD_PX = 8
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {value}">
<title>{name}: {value}</title><clipPath id="c"><rect width="{width}" height="20" rx="3"/></clipPath>
<g clip-path="url(#c)"><rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20"
fill="#0b63a5"/></g><g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{name_x}" y="14">{name}</text><text x="{value_x}" y="14">{value}</text></g></svg>
"""


def tests() -> int:
    """The number of test functions, rounded down to hundreds."""
    files = (ROOT / "tests").rglob("test_*.py")
    every = sum(len(re.findall(r"^\s*(?:async )?def test_", file.read_text(encoding="utf-8"), re.M)) for file in files)
    return every // 100 * 100


def badges() -> dict[str, str]:
    """The name of each badge -> its text."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    return {
        "tests": f"{tests():,} functions",
        "licence": project["license"],
        "python": f"{versions[0]} to {versions[-1]}",
    }


def drawn(name: str, value: str) -> str:
    """A badge as SVG."""
    left, right = (CHAR_PX * len(text) + 2 * PAD_PX for text in (name, value))
    return SVG.format(name=name, value=value, width=left + right, left=left, right=right, name_x=left // 2,
                      value_x=left + right // 2)  # fmt: skip


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in badges().items():
        (folder / f"{name}.svg").write_text(drawn(name, value), encoding="utf-8")


if __name__ == "__main__":
    main()
