"""The code that docs/python.md shows is that of docs/examples, which tests run, and every example is linked."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "python.md").read_text(encoding="utf-8")


def test_code_blocks_are_examples():
    examples = {path.read_text(encoding="utf-8") for path in (DOCS / "examples").glob("*.py")}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert blocks
    assert [block for block in blocks if block not in examples] == []


def test_every_example_is_linked():
    linked = set(re.findall(r"\]\(examples/(\w+\.py)\)", PAGE))
    assert linked == {path.name for path in (DOCS / "examples").glob("*.py")}
