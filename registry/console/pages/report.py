"""The page with the report of the pipeline, in a frame that cannot reach the console around it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..context import Console
from ..report import GoldReport, NoReport
from ..twins import Twin

# The report has its own scripts, which draw the charts and need eval. So the browser treats it as another site: it
# has its own origin, may send no request, and only a page of the console may frame it.
_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)

TWIN: Final = Twin("Whether there is a report of the pipeline; fault: why not.", {"fault": str}, ())


async def report(console: Console, request: Request) -> Response:
    """The page around the report; it says how old the report is."""
    found: GoldReport | None = None
    fault = ""
    try:
        found = await console.report.get()
    except NoReport as error:
        fault = console.in_namespace(str(error))
    return await console.page(request, "report.html", report=found, fault=fault)


async def page(console: Console, _: Request) -> Response:
    """The report itself, for the frame."""
    found = await console.report.get()
    return HTMLResponse(found.html, headers={"content-security-policy": _POLICY, "x-frame-options": "SAMEORIGIN"})
