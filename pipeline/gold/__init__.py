"""Figures per hour and day, which docs/pipeline.md defines. Reading them needs no Spark."""

from __future__ import annotations

from .build import refresh
from .tables import last_hour, read

__all__ = ["last_hour", "read", "refresh"]
