"""Packs a folder of recordings into the archive beside this file."""

import lzma
import sys
from pathlib import Path

from tests.golden import ARCHIVE

lines = b"".join(path.read_bytes() for path in sorted(Path(sys.argv[1]).glob("*.jsonl")))
ARCHIVE.write_bytes(lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME))
