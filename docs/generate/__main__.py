"""Writes the generated parts of docs/reference/ again: ``python -m docs.generate``."""

from __future__ import annotations

from . import FOLDER, written


def main() -> None:
    """Write each page that is old, and say which."""
    for path in sorted(FOLDER.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if page != (new := written(page)):
            path.write_text(new, encoding="utf-8")
            print(f"written: {path.relative_to(FOLDER.parent.parent)}")


if __name__ == "__main__":
    main()
