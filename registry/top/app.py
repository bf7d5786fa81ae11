"""The screen of ``top``: brokers sorted by the time until they expire, new changes, rates; fits 80 columns."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import datetime
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, RichLog, Static

from ..errors import RegistryError, StoreUnavailable
from ..events.changes import Change
from ..model import MASTER_ID
from ..names import printable
from ..operators.words import counted, duration, what
from ..store.operator_reads import BrokerInfo
from ..tasks import cancelled, pause
from .watched import Look, ShownRates, Watched

_EVERY_S: Final = 1.0
_ROWS: Final = 200
_KEPT: Final = 500
# The columns that matter most come first: a terminal of 80 columns cuts off the last ones.
_COLUMNS: Final = ("LEFT", "BROKER NAME", "ID", "ADDRESS", "HEARD", "CLUSTER", "FRONT ENDS")
_SOON: Final = 0.25  # the share of its timeout below which a broker has missed heartbeats, and is shown in yellow


class Top(App[None]):
    """The screen; it ends after ``looks`` refreshes, or when the user quits."""

    TITLE = "mqregistry top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #state, #rates { height: 1; width: 100%; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #state.away { background: $error; color: $text; }
    #state.paused { background: $warning; color: $text; }
    #filter { display: none; height: 1; border: none; padding: 0 1; }
    #filter.open { display: block; }
    #brokers { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
    #more { height: auto; padding: 0 1; color: $text-muted; }
    #changes { height: 8; border-top: solid $foreground 30%; padding: 0 1; scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("p", "pause", "Pause"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "unfilter", "No filter"),
    ]

    def __init__(self, watched: Watched, title: str, looks: int | None = None) -> None:
        super().__init__()
        self._watched = watched
        self._title = title
        self._looks = looks
        self._last: Look | None = None
        self._answered: float | None = None
        self._fault = ""
        self._paused = False
        self._wanted = ""
        self._changes: deque[Change | str] = deque(maxlen=_KEPT)

    def compose(self) -> ComposeResult:
        """The parts of the screen, from top to bottom."""
        yield Static(id="state", markup=False)
        yield Static(id="rates", markup=False)
        yield Input(id="filter", placeholder="part of a cluster, a name, an address, or of a change", compact=True)
        yield DataTable(id="brokers", cursor_type="row", zebra_stripes=False)
        yield Static(id="more", markup=False)
        yield RichLog(id="changes", wrap=False, max_lines=_KEPT, auto_scroll=True)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Begin to refresh when the screen is there."""
        table = self.query_one("#brokers", DataTable)
        table.add_columns(*_COLUMNS)
        table.focus()
        self.run_worker(self._look_again_and_again(), exclusive=True)

    async def _look_again_and_again(self) -> None:
        number = 0
        while not cancelled():
            started = time.monotonic()
            await self._look()
            number += 1
            if self._looks is not None and number >= self._looks:
                self.exit()
                return
            await pause(max(0.05, _EVERY_S - (time.monotonic() - started)))

    async def _look(self) -> None:
        try:
            look = await self._watched.look()
        except StoreUnavailable as error:
            self._fault = f"Redis does not answer: {error}"
        except RegistryError as error:
            self._fault = str(error)
        else:
            again = self._fault != "" and self._last is not None
            self._fault, self._answered = "", time.time()
            self._take(look, again)
        self._show_state()

    def _take(self, look: Look, again: bool) -> None:
        new: list[Change | str] = list(look.changes)
        if look.anew and self._last is not None:
            new.insert(0, "changes may be missing here: Redis was emptied, lost changes, or trimmed the stream")
        elif again:
            new.insert(0, "Redis answers again")
        self._changes += new
        self._last = look
        if not self._paused:
            self._show_brokers()
            self._show_rates()
            self._write(new)

    def _show_state(self) -> None:
        line, look = self.query_one("#state", Static), self._last
        line.set_class(bool(self._fault), "away")
        line.set_class(self._paused and not self._fault, "paused")
        if self._fault:
            since = f"since {_clock(self._answered * 1000)} " if self._answered else ""
            line.update(printable(f"AWAY {since}- {self._fault}"))
        elif look is None:
            line.update(printable(f"{self._title}: reading"))
        else:
            paused = "PAUSED, p goes on - " if self._paused else ""
            line.update(printable(f"{_clock(look.now_ms)} {paused}{_who_is_there(look)} - {self._title}"))

    def _show_rates(self) -> None:
        if self._last is not None:
            self.query_one("#rates", Static).update(_rates(self._last.rates))

    def _show_brokers(self) -> None:
        look = self._last
        if look is None:
            return
        rows = [one for one in look.brokers if self._fits(f"{one.cluster} {one.broker_name} {one.broker_addr}")]
        table = self.query_one("#brokers", DataTable)
        row, scrolled = table.cursor_row, table.scroll_y
        table.clear()
        for info in rows[:_ROWS]:
            table.add_row(*_cells(info))
        if rows:
            table.move_cursor(row=min(row, len(rows) - 1), scroll=False)
            table.scroll_to(y=scrolled, animate=False)
        more = self.query_one("#more", Static)
        text = printable(_more(look, rows, self._wanted))
        more.display = bool(text)
        more.update(text)

    def _fits(self, text: str) -> bool:
        return self._wanted.lower() in text.lower()

    def _write(self, changes: list[Change | str]) -> None:
        log = self.query_one("#changes", RichLog)
        for change in changes:
            line = f"-- {change}" if isinstance(change, str) else _line(change)
            if isinstance(change, str) or self._fits(line):
                log.write(Text(printable(line), no_wrap=True), scroll_end=None)

    def _show_all(self) -> None:
        self._show_brokers()
        self._show_rates()
        self._show_state()
        self.query_one("#changes", RichLog).clear()
        self._write(list(self._changes))

    def action_pause(self) -> None:
        """Pause the screen, or show the present state again."""
        self._paused = not self._paused
        if self._paused:
            self._show_state()
        else:
            self._show_all()

    def action_filter(self) -> None:
        """Open the line for the filter."""
        line = self.query_one("#filter", Input)
        line.add_class("open")
        line.focus()

    def action_unfilter(self) -> None:
        """Show every broker and change again."""
        line = self.query_one("#filter", Input)
        line.value = ""
        line.remove_class("open")
        self.query_one("#brokers", DataTable).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while somebody types."""
        self._wanted = event.value.strip()
        self._show_all()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Return to the brokers; the filter stays."""
        self.query_one("#brokers", DataTable).focus()


def _clock(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000).strftime("%H:%M:%S")


def _who_is_there(look: Look) -> str:
    there = [one for one in look.fleet.front_ends if one.state != "gone"]
    names = len({one.broker_name for one in look.brokers})
    text = f"{counted(len(look.brokers), 'broker')}, {counted(names, 'name')}, {counted(len(there), 'front end')}"
    unwell = [f"{one.name} is {one.state}" for one in look.fleet.front_ends if one.state != "ready"]
    if look.fleet.sweepers and all(one.gone for one in look.fleet.sweepers):
        unwell.insert(0, "no sweeper")
    return text + (f"; {unwell[0]}" + (f" and {len(unwell) - 1} more" if unwell[1:] else "") if unwell else "")


def _rates(rates: ShownRates) -> str:
    return (
        f"a second: lookups {_number(rates.lookups)} ({_number(rates.missing)} in vain), registrations "
        f"{_number(rates.registrations)}, beats {_number(rates.heartbeats)}, changes {_number(rates.changes)}"
    )


def _number(rate: float) -> str:
    if not rate:
        return "0"
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}" if rate >= 0.1 else f"{rate:.2f}"


def _cells(info: BrokerInfo) -> list[Text]:
    left_ms = info.expires_in_ms
    style = "bold red" if left_ms <= 0 else "yellow" if left_ms < _SOON * info.heartbeat_timeout_millis else ""
    held = info.connections if isinstance(info.connections, list) else []
    values = (
        f"{left_ms // 1000}s" if left_ms > 0 else "overdue", info.broker_name,
        "M" if info.broker_id == MASTER_ID else str(info.broker_id), info.broker_addr, duration(info.heard_ms_ago),
        info.cluster, ", ".join(sorted({one.front_end for one in held})),
    )  # fmt: skip
    return [
        Text(printable(value), style=style if not place else "", no_wrap=True) for place, value in enumerate(values)
    ]


def _more(look: Look, rows: list[BrokerInfo], wanted: str) -> str:
    texts = []
    if not look.brokers:
        texts.append("no broker is registered")
    elif wanted:
        texts.append(f"{len(rows)} of {counted(len(look.brokers), 'broker')} with {wanted!r}, Escape shows all")
    if len(rows) > _ROWS:
        texts.append(f"the first {_ROWS} by time left are shown")
    return "; ".join(texts)


def _line(change: Change) -> str:
    by = "" if change.by is None else f"; by {change.by}"
    return f"{_clock(change.ms)} {change.type} {what(change)}{by}"


async def show(watched: Watched, title: str, looks: int | None) -> int:
    """Show the screen until the user quits; returns the exit status."""
    app = Top(watched, title, looks)
    await app.run_async()
    await asyncio.sleep(0)
    return app.return_code or 0
