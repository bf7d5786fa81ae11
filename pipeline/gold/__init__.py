"""Figures per hour and day, which docs/pipeline.md defines; the files in ``sql`` compute them."""

from __future__ import annotations

from .figures import last_hour, read

__all__ = ["last_hour", "read"]
