"""Figures per hour and day, which docs/pipeline.md defines; the files in ``sql`` compute them."""

from __future__ import annotations

from .tables import last_hour, read

__all__ = ["last_hour", "read"]
