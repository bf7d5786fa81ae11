"""The report of the pipeline, in a frame that can do nothing to the console around it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..context import Console
from ..report import GoldReport, NoReport
from ..twins import Twin

# The page brings its own scripts, which draw the charts and compile what they draw. So it is no page of this site: it
# has an origin of its own, sends nothing anywhere, and may be shown in a page of the console alone.
_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


TWIN: Final = Twin("Whether there is a report of the pipeline; fault: why not.", {"fault": str}, ())


async def report(console: Console, request: Request) -> Response:
    """The page around it: how old it is."""
    found: GoldReport | None = None
    fault = ""
    try:
        found = await console.report.get()
    except NoReport as error:
        fault = str(error)
    return await console.page(request, "report.html", report=found, fault=fault)


async def page(console: Console, _: Request) -> Response:
    """The report itself, for the frame."""
    found = await console.report.get()
    return HTMLResponse(found.html, headers={"content-security-policy": _POLICY, "x-frame-options": "SAMEORIGIN"})
