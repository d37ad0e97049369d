"""The static files of the pages: read and compressed once, cached by browsers for ever."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.metadata import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from service.errors import PathNotFound
from service.http.compression import CODINGS, IDENTITY, negotiate
from service.http.responses import FIELDS

FOLDER = Path(__file__).parent / "static"
VIEWER = ("swagger-ui-bundle.js", "swagger-ui.css")
VIEWER_DISTRIBUTION = "mkdocs-swagger-ui-tag"
TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
IMMUTABLE = "public, max-age=31536000, immutable"


async def get_static_file(request: Request) -> Response:
    """Return a static file; an address of another version gives the current file, uncached."""
    version, _, name = request.path_params["file"].partition("/")
    if name not in FILES:
        raise PathNotFound("no static file has this name")
    coding = negotiate(request.scope[FIELDS].get(b"accept-encoding", b""))
    return _response(name, coding, is_current=version == VERSION)


@cache
def _response(name: str, coding: bytes, *, is_current: bool) -> Response:
    body = FILES[name] if coding == IDENTITY else CODINGS[coding](FILES[name])
    headers = {
        "vary": "Accept-Encoding",
        "cache-control": IMMUTABLE if is_current else "no-cache",
    }
    if coding != IDENTITY:
        headers["content-encoding"] = coding.decode()
    return Response(body, headers=headers, media_type=TYPES[Path(name).suffix])


def _read() -> dict[str, bytes]:
    own = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
    # Find the files of Swagger UI by name: their folder is an internal of that distribution.
    viewer = (path for path in files(VIEWER_DISTRIBUTION) or () if path.name in VIEWER)
    return own | {path.name: path.read_binary() for path in viewer}


def _version() -> str:
    digest = blake2b(digest_size=6)
    for name, body in FILES.items():
        digest.update(b"%b %d %b" % (name.encode(), len(body), body))
    return digest.hexdigest()


FILES = _read()
VERSION = _version()
"""Hash of all files, part of their addresses."""
