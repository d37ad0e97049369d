"""Servers of a document: the absolute URLs of its operations."""

from __future__ import annotations

import re
from typing import Any

from indexer.documents.document import Document
from indexer.untrusted import line, mapping
from service.urls import MAX_URL

MAX_DEFAULT = 256  # characters of a variable

_variable = re.compile(r"\{([^{}]*)\}")


def url_of(document: Document, path: str, servers: tuple[Any, ...], place: str) -> str:
    """Return the URL of an operation on its first server; raises InvalidRecord.

    servers: those of the operation, of its path and of the document, of which the first ones count
    """
    first = next((each[0] for each in servers if isinstance(each, list) and each), None)
    server = first if isinstance(first, dict) else {}
    variables = mapping(server, "variables")
    url = _variable.sub(
        lambda match: line(mapping(variables, match[1]).get("default"), MAX_DEFAULT),
        line(server.get("url"), MAX_URL) or "/",
    )
    url = document.resolve(url, place).partition("#")[0].partition("?")[0]
    return f"{url.rstrip('/')}/{path.lstrip('/')}"
