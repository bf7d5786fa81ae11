"""Makes the report from gold: one HTML file without other parts. Without Spark."""

from __future__ import annotations

from .page import make, write

__all__ = ["make", "write"]
