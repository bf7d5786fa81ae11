"""Figures per hour and day: docs/pipeline.md says what each is. Reading them needs no Spark."""

from __future__ import annotations

from pipeline.gold.build import refresh
from pipeline.gold.tables import read

__all__ = ["read", "refresh"]
