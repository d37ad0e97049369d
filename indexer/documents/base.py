"""Base: the URL that the relative URLs of a document are resolved against."""

from __future__ import annotations

from urllib.parse import urljoin

from indexer.errors import InvalidRecord
from indexer.options import SourceOptions


class Base:
    """The base of the documents of a source: its URL, or the only host that the operator names."""

    def __init__(self, source: SourceOptions) -> None:
        self._url = source.url
        if not source.url and len(source.hosts) == 1 and "*" not in source.hosts[0]:
            self._url = f"https://{source.hosts[0]}/"

    def resolve(self, url: str, path: str) -> str:
        """Return the absolute URL of one at a JSON path; raises InvalidRecord."""
        if "://" in url:
            return url
        if not self._url:
            reason = "has a relative URL; name the host in `hosts` of the source"
            raise InvalidRecord(path, reason)
        try:
            return urljoin(self._url, url)
        except ValueError as error:
            raise InvalidRecord(path, f"is not a URL: {error}") from error
