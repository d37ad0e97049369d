"""The static files of the pages, cached by browsers for ever."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from starlette.requests import Request
from swagger_ui_bundle import (  # type: ignore[import-untyped]  # it has no marker of types
    swagger_ui_path,
)

from service.errors import RatecardError
from service.http.responses import IMMUTABLE, NO_CACHE, Cacheable

FOLDER = Path(__file__).parent / "static"
VIEWER = ("swagger-ui-bundle.js", "swagger-ui.css")
TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


async def get_static_file(request: Request) -> Cacheable:
    """Return a static file; an address of another version gives the current file, not kept."""
    version, _, name = request.path_params["file"].partition("/")
    if name not in FILES:
        raise RatecardError("no static file has this name", "path_not_found", see="/openapi.json")
    is_current = version == VERSION
    return Cacheable(
        FILES[name],
        TYPES[Path(name).suffix],
        etag=VERSION,
        cache_control=IMMUTABLE if is_current else NO_CACHE,
        is_kept=is_current,
    )


FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
FILES |= {name: (swagger_ui_path / name).read_bytes() for name in VIEWER}
VERSION = blake2b(
    b"".join(b"%b %d %b" % (name.encode(), len(body), body) for name, body in FILES.items()),
    digest_size=6,
).hexdigest()
"""Hash of all files, part of their addresses."""
