"""Ends what runs where it would commit to a Delta table, as a kill does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mqregistry.pipeline.lake.table import Table


@contextmanager
def cut_off_after(commits: int) -> Iterator[list[str]]:
    """Within the block so many commits are done; at the next one KeyboardInterrupt is raised, and nothing is written.

    Gives the names of the tables that were committed to.
    """
    commit, done = Table.commit, list[str]()

    def counted(table: Table, *arguments: Any, **more: Any) -> Any:
        if len(done) == commits:
            raise KeyboardInterrupt
        done.append(table.name)
        return commit(table, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "commit", counted)
        yield done
