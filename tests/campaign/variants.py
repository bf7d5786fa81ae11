"""What a round runs on: one Redis, or a master and a replica under Sentinels."""

from __future__ import annotations

SINGLE = "single"
SENTINEL = "sentinel"
VARIANTS = (SINGLE, SENTINEL)
