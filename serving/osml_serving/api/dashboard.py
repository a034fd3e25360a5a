"""The files of the dashboard and of the API documentation: all from this package, nothing inline."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import os
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parents[1] / "static"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # ask each time, answered by 304: an upgrade shows at once
}


class PageFiles(StaticFiles):
    """Static files with the page's headers."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Add the headers to what the file server answers."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        return response


def router() -> APIRouter:
    """The page itself; its files are mounted at /static."""
    routes = APIRouter()

    @routes.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    @routes.get("/fleet", include_in_schema=False)
    async def fleet() -> FileResponse:
        return FileResponse(STATIC / "fleet.html", headers=HEADERS)

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html", headers=HEADERS)

    return routes
