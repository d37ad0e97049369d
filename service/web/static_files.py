"""The static files of the pages, cached by browsers for ever."""

from __future__ import annotations

from hashlib import blake2b
from importlib.metadata import files
from pathlib import Path

from starlette.requests import Request

from service.errors import RatecardError
from service.http.responses import IMMUTABLE, NO_CACHE, Cacheable

FOLDER = Path(__file__).parent / "static"
VIEWER = ("swagger-ui-bundle.js", "swagger-ui.css")
VIEWER_DISTRIBUTION = "mkdocs-swagger-ui-tag"
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


# Find the files of Swagger UI by name: their folder is an internal of that distribution.
_viewer = [path for path in files(VIEWER_DISTRIBUTION) or () if path.name in VIEWER]
FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
FILES |= {path.name: path.read_binary() for path in _viewer}
VERSION = blake2b(
    b"".join(b"%b %d %b" % (name.encode(), len(body), body) for name, body in FILES.items()),
    digest_size=6,
).hexdigest()
"""Hash of all files, part of their addresses."""
