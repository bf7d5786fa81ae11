"""Writes the parts of the reference that the code itself says: commands, settings, requests, scripts.

Each part is a function without arguments that returns Markdown. A page asks for it with ``{generated} NAME``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .commands import commands
from .requests import requests, responses
from .scripts import scripts
from .settings import settings

PAGES: Final[dict[str, Callable[[], str]]] = {
    "commands": commands,
    "requests": requests,
    "responses": responses,
    "scripts": scripts,
    "settings": settings,
}
