"""Questions about the lake in SQL, answered by DuckDB without Spark and Redis: :class:`Door`."""

from __future__ import annotations

from .door import Door, SqlError
from .views import ABOUT

__all__ = ["ABOUT", "Door", "SqlError"]
