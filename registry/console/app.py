"""Puts the console together: addresses, guard, loops; and serves it until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..config.settings import Settings
from ..errors import RegistryError, StartError, StoreUnavailable
from ..operators.previews import Mistaken
from ..store.store import Store
from .context import BadRequest, Console, NotAllowed, NotKnown, NotThere
from .guard import Guard
from .pages import actions, brokers, changes, compare, kv, now, system, topics
from .past import Past
from .state import BLOCK_MS, State

logger = logging.getLogger(__name__)

_LOADING_S: Final = 5.0
_STOP_S: Final = 1

_ERRORS: Final[tuple[tuple[type[RegistryError], int, str], ...]] = (
    (BadRequest, 400, "This address makes no sense"),
    (Mistaken, 400, "Nothing was changed"),
    (NotAllowed, 403, "Nothing was changed"),
    (NotThere, 404, "There is no such thing"),
    (NotKnown, 404, "Not known any more"),
    (StoreUnavailable, 503, "Redis does not answer"),
)
_OTHER: Final = (500, "This does not work")

Handler = Callable[[Console, Request], Awaitable[Response]]

PAGES: Final[dict[str, Handler]] = {
    "/": now.now,
    "/brokers": brokers.brokers,
    "/topics": topics.topics,
    "/topic": topics.topic,
    "/changes": changes.changes,
    "/changes/{seq}": changes.change,
    "/events": changes.events,
    "/compare": compare.compare,
    "/kv": kv.kv,
    "/front-ends": system.front_ends,
    "/streams": system.streams,
    "/actions": actions.actions,
    "/action": actions.action,
}


class _Static(StaticFiles):
    """Files that a browser may keep: their addresses name the release."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "public, max-age=3600"
        return response


def make_app(console: Console) -> Starlette:
    """The application; its lifespan runs the loops of the console."""

    def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await handler(console, request)
            except RegistryError as error:
                status, title = next((one[1:] for one in _ERRORS if isinstance(error, one[0])), _OTHER)
                return await console.page(request, "error.html", status, title=title, text=str(error))

        return answer

    async def not_found(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return await console.page(
            request, "error.html", status, title="There is no such page", text="The pages are at the top."
        )

    async def healthy(_: Request) -> Response:
        stale = console.state.stale_since_ms is not None
        return PlainTextResponse("stale\n" if stale else "ok\n", 503 if stale else 200)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loops = [asyncio.create_task(console.state.follow()), asyncio.create_task(console.past.keep())]
        deadline = asyncio.get_running_loop().time() + _LOADING_S
        while not console.state.loaded and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield
        finally:
            console.state.stop()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    return Starlette(
        routes=[
            *(Route(path, endpoint(handler), methods=["GET"]) for path, handler in PAGES.items()),
            Route("/action", endpoint(actions.do), methods=["POST"]),
            Route("/healthz", healthy, methods=["GET"]),
            Mount("/static", _Static(directory=Path(__file__).parent / "static"), name="static"),
        ],
        middleware=[Middleware(Guard, root_path=console.root_path)],
        exception_handlers={404: not_found, 405: not_found},
        lifespan=lifespan,
    )


class _Server(uvicorn.Server):
    """Ends with a signal as with its work done: an end that was asked for is no fault."""

    def __init__(self, config: uvicorn.Config, state: State) -> None:
        super().__init__(config)
        self._state = state

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Instead of uvicorn's, which raises the signal again afterwards."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self.should_exit = True
        self._state.stop()  # streams of open pages end only when they are told


async def serve(
    store: Store, settings: Settings, folder: Path, *, host: str, port: int, may_act: bool, root_path: str,
    version: str, when_ready: Callable[[str], None],
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT.

    Args:
        store: on a namespace that exists. folder: for checkpoints. host: of this machine alone; the caller has checked
            it. when_ready: is called with the address of the console once it answers.

    Raises:
        StartError: the port is taken.
    """
    async with Store(
        settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms + BLOCK_MS, compat=store.compat
    ) as tail_store:
        state = State(store, tail_store)
        console = Console(state, Past(state, folder), settings, actions=may_act, root_path=root_path, version=version)
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # that it starts, the console says itself
        config = uvicorn.Config(
            make_app(console), host=host, port=port, log_config=None, access_log=False, lifespan="on",
            timeout_graceful_shutdown=_STOP_S, server_header=False,
        )  # fmt: skip
        try:
            listener = config.bind_socket()
        except SystemExit:
            raise StartError(f"cannot listen on {host}:{port}: the port is taken, --port names another") from None
        port = listener.getsockname()[1]
        server = _Server(config, state)

        async def tell() -> None:
            while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
                await asyncio.sleep(0.01)
            shown = f"[{host}]" if ":" in host else host
            when_ready(f"http://{shown}:{port}{console.root_path}/")

        telling = asyncio.create_task(tell())
        try:
            await server.serve([listener])
        finally:
            telling.cancel()
