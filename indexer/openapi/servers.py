"""Servers of a document: the absolute URLs of its operations."""

from __future__ import annotations

import re
from typing import Any

from indexer.documents.base import Base
from indexer.options import SourceOptions
from indexer.untrusted import line, mapping
from service.urls import MAX_URL

MAX_DEFAULT = 256  # characters of a variable

_variable = re.compile(r"\{([^{}]*)\}")


class Servers:
    """The servers of a document; a relative URL is one of the source, or of its only host."""

    def __init__(self, values: dict[str, Any], source: SourceOptions) -> None:
        self._servers = values.get("servers")
        self._base = Base(source)

    def url_of(self, path: str, item: dict[str, Any], operation: dict[str, Any], place: str) -> str:
        """Return the URL of an operation on its first server; raises InvalidRecord.

        Servers of the operation come before those of its path, and those before the document's.
        """
        given = (operation.get("servers"), item.get("servers"), self._servers)
        first = next((each[0] for each in given if isinstance(each, list) and each), None)
        server = first if isinstance(first, dict) else {}
        variables = mapping(server, "variables")
        url = _variable.sub(
            lambda match: line(mapping(variables, match[1]).get("default"), MAX_DEFAULT),
            line(server.get("url"), MAX_URL) or "/",
        )
        url = self._base.resolve(url, place)
        url = url.partition("#")[0].partition("?")[0]
        return f"{url.rstrip('/')}/{path.lstrip('/')}"
