"""The report: one HTML file that needs nothing else, from gold, without Spark."""

from __future__ import annotations

from pipeline.report.page import write

__all__ = ["write"]
