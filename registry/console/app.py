"""Builds the console from its addresses, middleware and loops, and serves it until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .. import __version__
from ..auth.changes import RefusedChange
from ..config.settings import Settings
from ..errors import RegistryError, StartError, StoreUnavailable
from ..operators.language import marked, say
from ..operators.previews import Mistaken
from ..operators.time_zone import choose_time_zone
from ..store.store import Store
from .connections import bounded
from .context import BadRequest, Console, NotThere, PageNotAllowed, PageWriter
from .locale.chosen import speak
from .login.guard import guards
from .login.logins import Logins
from .login.needs import needs_of_page
from .login.reach import Reach
from .login.viewer import Refused
from .namespaces import Namespaces
from .pages import (
    actions,
    brokers,
    changes,
    clusters,
    compare,
    kv,
    login,
    missing,
    now,
    report,
    search,
    system,
    time_zone,
    topics,
    users,
)
from .pages.time_zone import TIME_ZONE_COOKIE
from .past import NotKnown, Past, PastRoutes
from .report import NoReport, ReportSource
from .state import BLOCK_MS, State
from .twins import Twin, openapi, twin_path, wants_json
from .undo import NotUndone

logger = logging.getLogger(__name__)

_LOADING_S: Final = 5.0
_STOP_S: Final = 1

_ERRORS: Final[tuple[tuple[type[RegistryError], int, str], ...]] = (
    (BadRequest, 400, marked("This address makes no sense")),
    (Mistaken, 400, marked("Nothing was changed")),
    (RefusedChange, 400, marked("Nothing was changed")),
    (PageNotAllowed, 403, marked("Nothing was changed")),
    (NotThere, 404, marked("There is no such thing")),
    (NotKnown, 404, marked("Not known any more")),
    (NoReport, 404, marked("There is no report")),
    (NotUndone, 400, marked("There is nothing to put back")),
    (StoreUnavailable, 503, marked("Redis does not answer")),
)
_OTHER: Final = (500, marked("This does not work"))

Handler = Callable[[Console, Request], Awaitable[Response]]
LoginHandler = Callable[[PageWriter, Request, Logins], Awaitable[Response]]

PAGES: Final[dict[str, tuple[Handler, Twin | None]]] = {
    "/": (now.now, now.TWIN),
    "/brokers": (brokers.brokers, brokers.BROKERS_TWIN),
    "/broker": (brokers.broker, brokers.BROKER_TWIN),
    "/search": (search.search, search.TWIN),
    "/cluster": (clusters.cluster, clusters.TWIN),
    "/topics": (topics.topics, topics.TOPICS_TWIN),
    "/topic": (topics.topic, topics.TOPIC_TWIN),
    "/missing": (missing.missing, missing.TWIN),
    "/changes": (changes.changes, changes.CHANGES_TWIN),
    "/changes/export": (changes.export, None),
    "/changes/{seq}": (changes.change, changes.CHANGE_TWIN),
    "/changes/{seq}/undo": (actions.undo, None),
    "/compare": (compare.compare, compare.TWIN),
    "/kv": (kv.kv, kv.TWIN),
    "/users": (users.users, users.TWIN),
    "/front-ends": (system.front_ends, system.FRONT_ENDS_TWIN),
    "/streams": (system.streams, system.STREAMS_TWIN),
    "/report": (report.report, report.TWIN),
    "/report/page": (report.page, None),
    "/actions": (actions.actions, actions.ACTIONS_TWIN),
    "/action": (actions.action, actions.ACTION_TWIN),
    "/dismiss": (now.ask_dismiss, None),
    "/events": (changes.events, None),
}
"""Address of a page -> its handler, and its twin (the page as JSON), if it has one."""
TWINS: Final = {path: twin for path, (_, twin) in PAGES.items() if twin is not None}


class _Static(StaticFiles):
    """Files that a browser may keep, because their addresses contain the release."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "public, max-age=3600"
        return response


def make_app(console: Console, reach: Reach) -> Starlette:
    """The application of one namespace; its lifespan runs the loops."""
    return Starlette(
        routes=[*_login_routes(console, console.logins), *_pages(console), *_shared([console])],
        middleware=guards(console.root_path, reach), exception_handlers=_errors(console), lifespan=_lifespan([console]),
    )  # fmt: skip


def make_app_of_several(consoles: Sequence[Console], reach: Reach) -> Starlette:
    """The application of several namespaces: each namespace has its own application below its root_path."""
    apps = {one: Starlette(routes=_pages(one), exception_handlers=_errors(one)) for one in consoles}
    first_page = Namespaces(apps, consoles[0].version)
    return Starlette(
        routes=[*_login_routes(first_page, consoles[0].logins), *first_page.routes(), *_shared(consoles)],
        middleware=guards(first_page.root_path, reach), exception_handlers={404: first_page.elsewhere},
        lifespan=_lifespan(consoles),
    )  # fmt: skip


def _endpoint(
    console: Console, handler: Handler, twin: Twin | None = None, of: str = ""
) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a page or of its twin.

    ``of``: for a twin, the path of the page; the twin needs the same rights as the page. Empty: this is the page.
    """

    async def answer(request: Request) -> Response:
        request.state.twin, request.state.is_twin = twin, bool(of)
        if of:
            request.scope["path"] = of.format_map(request.path_params)
        speak(request, console.namespace, english=wants_json(request))
        viewer = console.who(request)
        if viewer is None:
            return login.ask(console, request)
        request.state.viewer = viewer
        choose_time_zone(request.cookies.get(TIME_ZONE_COOKIE, ""))
        try:
            viewer.check(needs_of_page(request))
            return await handler(console, request)
        except Refused as refused:
            return await _refuse(console, request, refused)
        except RegistryError as error:
            status, title = next((one[1:] for one in _ERRORS if isinstance(error, one[0])), _OTHER)
            return await console.page(
                request, "error.html", status, title=say(title), text=console.in_namespace(str(error)),
                names=getattr(error, "names", ()),
            )  # fmt: skip

    return answer


def _pages(console: Console) -> list[Route]:
    """The addresses of a namespace."""
    return [
        *(
            Route(twin_path(path), _endpoint(console, PAGES[path][0], one, path), methods=["GET"])
            for path, one in TWINS.items()
        ),
        *(Route(path, _endpoint(console, page, one), methods=["GET"]) for path, (page, one) in PAGES.items()),
        Route("/openapi.json", _endpoint(console, describe), methods=["GET"]),
        Route("/action", _endpoint(console, actions.do), methods=["POST"]),
        Route("/dismiss", _endpoint(console, now.do_dismiss), methods=["POST"]),
        Route("/zone", _endpoint(console, time_zone.choose), methods=["GET"]),
    ]


def _login_routes(pages: PageWriter, logins: Logins | None) -> list[Route]:
    """The addresses of the login, which all namespaces share."""

    def outside(handler: LoginHandler, logins: Logins) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            speak(request, pages.namespace)
            try:
                return await handler(pages, request, logins)
            except BadRequest as error:
                return PlainTextResponse(f"{error}\n", 400, {"connection": "close"})  # the rest of the body is not read

        return answer

    if logins is None:
        return []
    return [
        Route("/login", outside(login.login, logins), methods=["GET"]),
        Route("/login", outside(login.log_in, logins), methods=["POST"]),
        Route("/logout", outside(login.log_out, logins), methods=["POST"]),
    ]


def _shared(consoles: Sequence[Console]) -> list[Route | Mount]:
    async def healthy(_: Request) -> Response:
        stale = all(console.state.stale_since_ms is not None for console in consoles)  # one Redis holds all of them
        return PlainTextResponse("stale\n" if stale else "ok\n", 503 if stale else 200)

    return [
        Route("/healthz", healthy, methods=["GET"]),
        Mount("/static", _Static(directory=Path(__file__).parent / "static"), name="static"),
    ]


def _errors(console: Console) -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
    async def not_found(request: Request, error: Exception) -> Response:
        speak(request, console.namespace, english=wants_json(request))
        status = error.status_code if isinstance(error, HTTPException) else 404
        viewer = console.who(request)
        if viewer is None:
            return PlainTextResponse(say("there is no such page") + "\n", status)
        choose_time_zone(request.cookies.get(TIME_ZONE_COOKIE, ""))
        request.state.viewer = viewer
        return await console.page(
            request, "error.html", status, title=say("There is no such page"), text=say("The pages are at the top.")
        )

    return {404: not_found, 405: not_found}


def _lifespan(consoles: Sequence[Console]) -> Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]:
    """Runs the loops of these namespaces."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loops = [asyncio.create_task(work) for console in consoles for work in console.loops()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOADING_S):
                while not all(console.state.loaded for console in consoles):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        try:
            yield
        finally:
            for console in consoles:
                console.state.stop()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    return lifespan


async def describe(console: Console, request: Request) -> Response:
    """OpenAPI's description of the twins."""
    twins = {twin_path(path): twin for path, twin in TWINS.items()}
    return JSONResponse(openapi(twins, __version__, console.root_path))


async def _refuse(console: Console, request: Request, refused: Refused) -> Response:
    """The page that names the missing right and the command that gives it.

    If htmx in an open page sent the request, the browser loads the open page again.
    """
    text, mend = str(refused), console.in_namespace(refused.mend)
    page = await console.page(request, "refused.html", 403, text=text, mend=mend, live=False, connected=False)
    if "hx-request" in request.headers:
        page.headers["hx-refresh"] = "true"
    return page


class _Server(uvicorn.Server):
    """A server that ends normally after SIGTERM or SIGINT, since the end was requested."""

    def __init__(self, config: uvicorn.Config, consoles: Sequence[Console]) -> None:
        super().__init__(config)
        self._consoles = consoles

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals; uvicorn's own method would raise the signal again afterwards."""
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
        for console in self._consoles:
            console.state.stop()  # streams of open pages do not end by themselves


async def serve(
    stores: Sequence[Store], settings: Settings, folder: Path, *, host: str, port: int, may_act: bool, root_path: str,
    version: str, when_ready: Callable[[str], None], report_file: Path | None, reach: Reach,
    open_lake: Callable[[str], PastRoutes | None] = lambda _: None,
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT.

    Args:
        stores: one for each namespace, which must exist; several namespaces have their pages below ``/ns/NAME``.
        folder: for the checkpoints. host: where it listens; the caller has checked that it fits ``reach``.
        when_ready: called with the console's address once the console answers. report_file: a report that was made
            before. open_lake: opens the lake of a namespace. The lake knows older states than the stream, and makes the
            report.

    Raises:
        StartError: the port is taken; or the console has a login, and cannot read the users.
    """
    async with contextlib.AsyncExitStack() as stack:
        consoles = []
        for store in stores:
            tail_store = await stack.enter_async_context(Store(
                store.url, store.namespace, timeout_ms=settings.redis_timeout_ms + BLOCK_MS, compat=store.compat
            ))  # fmt: skip
            state, lake = State(store, tail_store), open_lake(store.namespace)
            consoles.append(Console(
                state, Past(state, folder, lake),
                msgspec.structs.replace(settings, namespace=store.namespace, compat=store.compat), actions=may_act,
                root_path=f"{root_path}/ns/{store.namespace}" if len(stores) > 1 else root_path, home_path=root_path,
                version=version, report=ReportSource(report_file, lake),
                logins=Logins(store, state, root_path=root_path) if reach.login else None,
            ))  # fmt: skip
        logins = [console.logins for console in consoles if console.logins is not None]
        if logins:
            Logins.join(logins)
            await asyncio.gather(*(one.rules.start() for one in logins))
            if not any(user.enabled and user.secrets for one in logins for user in one.rules.policy.users.values()):
                logger.warning(consoles[0].in_namespace(
                    "nobody can log in yet: 'mqregistry auth user add NAME --role operator', then "
                    "'mqregistry auth secret add NAME'"
                ))  # fmt: skip
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # when_ready tells of the start
        app = make_app(consoles[0], reach) if len(consoles) == 1 else make_app_of_several(consoles, reach)
        config = uvicorn.Config(
            app, host=host, port=port, log_config=None, access_log=False, lifespan="on",
            timeout_graceful_shutdown=_STOP_S, server_header=False, proxy_headers=False, ssl_certfile=reach.cert,
            ssl_keyfile=reach.key, http=bounded(reach.is_proxy),
        )  # fmt: skip
        try:
            listener = config.bind_socket()
        except SystemExit:
            raise StartError(
                f"cannot listen on {host}:{port}: the port is taken: choose another one with --port"
            ) from None
        port = listener.getsockname()[1]
        for one in logins:
            one.port = port
        server = _Server(config, consoles)

        async def tell() -> None:
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            shown = f"[{host}]" if ":" in host else host
            address = f"{'https' if reach.is_tls else 'http'}://{shown}:{port}"
            when_ready(f"{reach.origins[0] if reach.origins else address}{consoles[0].home_path}/")

        telling = asyncio.create_task(tell())
        try:
            await server.serve([listener])
        finally:
            telling.cancel()
