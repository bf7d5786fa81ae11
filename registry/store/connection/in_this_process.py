"""Lets mqregistry.testing replace the client of a URL by a client of a Redis inside this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPENERS: dict[str, Callable[[], Any]] = {}
"""URL -> opens a client."""
