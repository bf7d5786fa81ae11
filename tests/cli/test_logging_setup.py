"""The log file: it rolls, and what is full is kept compressed."""

from __future__ import annotations

import gzip
import logging

import pytest

from mqregistry.cli.run import logging_setup
from mqregistry.config.settings import Settings
from mqregistry.queued_output import flush_output
from tests.server.harness import wait_until


@pytest.fixture
def root():
    root = logging.getLogger()
    kept = root.handlers[:], root.level, logging.raiseExceptions
    yield root
    for handler in root.handlers:
        if handler not in kept[0]:
            handler.close()
    root.handlers[:], logging.raiseExceptions = kept[0], kept[2]
    root.setLevel(kept[1])


def test_full_log_files_are_kept_compressed_the_newest_first(root, tmp_path, monkeypatch):
    monkeypatch.setattr(logging_setup, "_FILE_BYTES", 2000)
    monkeypatch.setattr(logging_setup, "_FILES", 3)
    file = tmp_path / "namesrv.log"
    logging_setup.configure_logging(Settings(log_file=str(file)))
    for number in range(12):
        kept = {path.name for path in tmp_path.iterdir()}
        logging.getLogger("test").info("line %d %s", number, "x" * 900)
        flush_output()  # a thread writes the file
        if {path.name for path in tmp_path.iterdir()} != kept:  # compressing goes on beside the log
            wait_until(lambda: not [*tmp_path.glob("*.full"), *tmp_path.glob("*.part")], "it is compressed")
    wait_until(lambda: not [*tmp_path.glob("*.full"), *tmp_path.glob("*.part")], "it is compressed")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "namesrv.log", "namesrv.log.1.gz", "namesrv.log.2.gz", "namesrv.log.3.gz",
    ]  # fmt: skip
    told = [gzip.decompress((tmp_path / f"namesrv.log.{number}.gz").read_bytes()).decode() for number in (3, 2, 1)]
    lines = [line for text in (*told, file.read_text()) for line in text.splitlines()]
    assert [int(line.split("line ")[1].split()[0]) for line in lines] == list(range(12 - len(lines), 12))
    assert len(lines) >= 7
