"""The clients of Redises that exist in this process alone, as mqregistry.testing makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPENERS: dict[str, Callable[[], Any]] = {}
"""URL -> opens a client."""
