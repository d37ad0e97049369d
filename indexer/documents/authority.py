"""Authority: the hosts that a document may describe."""

from __future__ import annotations

from indexer.errors import InvalidRecord, LeftOut
from indexer.options import SourceOptions
from indexer.sources.denials import fold_host, host_pattern
from indexer.x402.members.naming import registrable_domain
from service.urls import parse_url

OTHER_HOSTS = "hosts of others"


class Authority:
    """The hosts that the documents of a source may describe.

    They are those that the operator names, else all for a curated source, else those of the
    registrable domain of the URL of the source, and none for a file.
    """

    def __init__(self, source: SourceOptions) -> None:
        self._hosts = [host_pattern(fold_host(each)) for each in source.hosts]
        self._is_curated = source.curated
        self._domain = registrable_domain(parse_url(source.url).host) if source.url else ""

    def check(self, path: str, url: str) -> None:
        """Raise InvalidRecord for a text at a JSON path that is no URL, LeftOut for other hosts."""
        try:
            host = parse_url(url).host
        except ValueError as error:
            raise InvalidRecord(path, str(error)) from error
        if not self._covers(host):
            raise LeftOut(OTHER_HOSTS, path, f"{host} {self._explain()}")

    def _covers(self, host: str) -> bool:
        if self._hosts:
            return any(each.fullmatch(host) for each in self._hosts)
        return self._is_curated or (self._domain != "" and registrable_domain(host) == self._domain)

    def _explain(self) -> str:
        if self._hosts or not self._domain:
            return "is none of the `hosts` of the source"
        return f"is outside of {self._domain}, from which the document was fetched"
