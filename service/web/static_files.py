"""The files of the page: read and compressed once, and kept by browsers for ever."""

from __future__ import annotations

import json
from functools import cache
from hashlib import blake2b
from importlib.metadata import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from service.errors import PathNotFound
from service.http.compression import CODINGS
from service.http.headers import EVERY_RESPONSE
from service.http.responses import Encoded, coding_for
from service.networks import labels_of_keys

FOLDER = Path(__file__).parent / "static"
VIEWER = ("swagger-ui-bundle.js", "swagger-ui.css")
VIEWER_DISTRIBUTION = "mkdocs-swagger-ui-tag"
TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
FOR_EVER = b"public, max-age=31536000, immutable"


async def asset(request: Request) -> Response:
    """One file; an address of another version answers what this one has, but not for ever."""
    version, _, name = request.scope["path_params"]["file"].partition("/")
    if name not in ASSETS:
        raise PathNotFound("the page has no such file")
    return _answer(name, coding_for(request), for_ever=version == VERSION)


@cache
def _answer(name: str, coding: bytes, *, for_ever: bool) -> Encoded:
    body = CODINGS[coding](ASSETS[name]) if coding else ASSETS[name]
    lines = b"%bcontent-type: %b\r\nvary: Accept-Encoding\r\ncache-control: %b\r\n" % (
        EVERY_RESPONSE,
        TYPES[Path(name).suffix],
        FOR_EVER if for_ever else b"no-cache",
    )
    if coding:
        lines += b"content-encoding: %b\r\n" % coding
    return Encoded(200, b"%bcontent-length: %d\r\n" % (lines, len(body)), body)


def _read() -> dict[str, bytes]:
    read = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
    # By name, as where the distribution has its files is its own affair; no code of it runs.
    viewer = (path for path in files(VIEWER_DISTRIBUTION) or () if path.name in VIEWER)
    read |= {path.name: path.read_binary() for path in viewer}
    labels = json.dumps(labels_of_keys())
    return read | {"networks.js": f"export default {labels};\n".encode()}


def _version() -> str:
    digest = blake2b(digest_size=6)
    for name, body in ASSETS.items():
        digest.update(b"%b %d %b" % (name.encode(), len(body), body))
    return digest.hexdigest()


ASSETS = _read()
VERSION = _version()
"""Changes with any of the files, and is part of their addresses."""
