"""Answers questions about the lake in SQL with DuckDB, without Spark and Redis; DuckDB sees only the lake's tables.

DuckDB opens no file itself: pyarrow reads the files that Delta's log names, and gives DuckDB columns and rows. So the
lake may be anywhere where deltalake can read, and DuckDB's own access to files and networks is switched off.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

import duckdb
import pyarrow as pa

from mqregistry.errors import RegistryError

from ..gold.figures import last
from ..lake.lake import Lake, whole_files
from ..lake.schema import TABLES
from ..past.travel import all_pasts, no_past
from .views import ABOUT, EPOCHS, raw_name, views

_READS: Final = ("SELECT", "EXPLAIN")
_NO_TABLE: Final = re.compile(r"Table with name \"?(\S+?)\"? does not exist")
_LOCKED: Final = {
    "enable_external_access": "false",  # files, networks, extensions, other databases
    "temp_directory": "",  # DuckDB writes no temporary files when memory runs out
}


class SqlError(RegistryError):
    """DuckDB refuses the query, or it is not allowed; the message has DuckDB's words."""


class Door:
    """Answers questions in SQL about one lake, as it was when this object was made.

    Args:
        namespace: the views without a layer's name show this namespace.
        time_zone: the zone of moments and days; None: this machine's.

    Raises:
        LakeError: the lake holds nothing of the namespace.
        SqlError: there is no such time zone.
    """

    def __init__(self, lake: Lake, namespace: str, *, time_zone: str | None = None) -> None:
        self._lake = lake
        self._db = duckdb.connect(":memory:", config=dict(_LOCKED))
        self._made: set[str] = set()
        if time_zone is not None:
            try:
                self._db.execute("SET TimeZone = $1", [time_zone])
            except duckdb.Error as error:
                raise SqlError(_words(error)) from error
        with whole_files(lake):
            self._views = views(namespace, self._add_epochs(namespace))
        for layer in ("bronze", "silver", "gold"):
            self._db.execute(f"CREATE SCHEMA {layer}")
        self._db.execute("SET lock_configuration = true")

    def _add_epochs(self, namespace: str) -> int:
        """Add the table of epochs; returns the end of the namespace's past, ms."""
        names = sorted({name for name, _ in self._lake.owners()})
        pasts = [past for name in names for past in all_pasts(self._lake, name)]
        if all(past.namespace != namespace for past in pasts):
            raise no_past(self._lake, namespace)
        latest = {past.namespace: past.epoch for past in sorted(pasts, key=lambda past: past.begin_ms)}
        epochs = []
        for past in pasts:
            place = past.namespace, past.epoch
            is_latest, figures = latest[past.namespace] == past.epoch, last(self._lake, *place)
            begins, ends = past.begin_ms * 1000, past.end_ms() * 1000  # Arrow's moments are in µs
            figures_to = None if figures is None else figures.now_ms * 1000
            row = (*place, is_latest, begins, ends, past.progress.seq, figures_to)
            epochs.append(dict(zip(EPOCHS.names, row, strict=True)))
        self._db.register("delta_epochs", pa.Table.from_pylist(epochs, EPOCHS))
        return max(past.end_ms() for past in pasts if past.namespace == namespace)

    def answer(self, sql: str) -> pa.Table:
        """The result of a query.

        Raises:
            SqlError: the text is not exactly one query that only reads, or DuckDB refuses it.
            LakeError: a file of the lake is broken or gone.
        """
        try:
            statements = self._db.extract_statements(sql)
            if len(statements) != 1 or statements[0].type.name not in _READS:
                raise SqlError("one query is expected, which only reads: SELECT …, DESCRIBE TABLE or EXPLAIN SELECT …")
            with whole_files(self._lake):
                self._make(_known(sql, self._views) or list(self._views))
            return self._db.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            missing = _NO_TABLE.search(str(error))
            raise SqlError(_no_table(missing[1], self._views) if missing else _words(error)) from error

    def _make(self, names: list[str]) -> None:
        """Make views, and first the views and tables that they read."""
        for name in names:
            if name in self._made:
                continue
            self._made.add(name)
            query = self._views[name]
            asked = set(re.findall(r"(?:FROM|JOIN) ([\w.]+)", query))
            self._make([other for other in self._views if other in asked])
            for table in TABLES:
                raw = raw_name(table)
                if raw in asked and raw not in self._made:
                    self._made.add(raw)
                    self._db.register(raw, self._lake.dataset(table))
            self._db.execute(f"CREATE VIEW {name} AS {query}")


def _known(sql: str, names: dict[str, str]) -> list[str]:
    """The views whose names occur as words in a query. If a word means something else, an extra view does no harm."""
    dotted = set(re.findall(r"\w+(?:\.\w+)?", sql.lower()))
    words = dotted | {word for one in dotted for word in one.split(".")}
    return [name for name in names if name in words]


def _no_table(name: str, names: dict[str, str]) -> str:
    close = difflib.get_close_matches(name, [*ABOUT, *names], 3, 0.6)
    hint = f"did you mean {' or '.join(dict.fromkeys(close))}? " if close else ""
    return f"no table {name!r}; {hint}'mqregistry pipeline sql' without a query lists them"


def _words(error: duckdb.Error) -> str:
    """DuckDB's message without the class of the error and without empty lines."""
    first, *rest = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return "\n".join([re.sub(r"^[A-Z][\w ]* Error: ", "", first), *rest])
