"""Makes parts of the reference from the code: commands, settings, requests, scripts, the Python API.

Each part is a function without arguments that returns Markdown. It stands in a page between two comments,
``<!-- generated: NAME -->`` and ``<!-- end -->``; ``python -m docs.generate`` writes all of them again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .commands import commands
from .python import client, testing
from .requests import requests, responses
from .scripts import scripts
from .settings import settings

FOLDER: Final = Path(__file__).resolve().parent.parent / "reference"
PARTS: Final[dict[str, Callable[[], str]]] = {
    "client": client,
    "commands": commands,
    "requests": requests,
    "responses": responses,
    "scripts": scripts,
    "settings": settings,
    "testing": testing,
}
_PART: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", re.S)


def written(page: str) -> str:
    """The text of a page, with its generated parts made again from the present code."""
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[3]}", page)
