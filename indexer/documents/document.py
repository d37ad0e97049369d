"""Documents that describe paid services, and the hosts for which they may speak."""

from __future__ import annotations

from urllib.parse import urljoin

from indexer.errors import InvalidRecord, LeftOut
from indexer.options import SourceOptions
from indexer.resources.assets import KNOWN_STABLECOINS, Stablecoins
from indexer.resources.names import registrable_domain
from indexer.resources.x402 import SIZE
from indexer.sources.denials import fold_host, host_pattern
from indexer.untrusted import url_or_invalid
from service.urls import parse_url

FREE = "free operations"
"""The rule that leaves out operations without a price."""
OTHER_HOSTS = "hosts of others"
MAX_RESOURCES = 64 * 2**20  # bytes of the resources of a document


class Document:
    """The text of a document, its source, and the tokens of its prices.

    A document may describe the hosts that the operator names, else all hosts for a curated source,
    else those of the registrable domain of the URL of its source, and none for a file.
    """

    def __init__(
        self, text: bytes, source: SourceOptions, stablecoins: Stablecoins = KNOWN_STABLECOINS
    ) -> None:
        self.text, self.stablecoins = text, stablecoins
        self._hosts = [host_pattern(fold_host(each)) for each in source.hosts]
        self._is_curated = source.curated
        self._domain = registrable_domain(parse_url(source.url).host) if source.url else ""
        self._base = source.url
        if not source.url and len(source.hosts) == 1 and "*" not in source.hosts[0]:
            self._base = f"https://{source.hosts[0]}/"

    def resolve(self, path: str, url: str) -> str:
        """Return the absolute form of a URL at a JSON path; raises InvalidRecord.

        A relative URL is one of the source, or of the only host that the operator names.
        """
        if "://" in url:
            return url
        if not self._base:
            reason = "has a relative URL; name the host in `hosts` of the source"
            raise InvalidRecord(path, reason)
        try:
            return urljoin(self._base, url)
        except ValueError as error:
            raise InvalidRecord(path, f"is not a URL: {error}") from error

    def check_host(self, path: str, url: str) -> None:
        """Raise InvalidRecord for a text at a JSON path that is no URL, LeftOut for other hosts."""
        host = url_or_invalid(url, path).host
        if self._hosts:
            is_own = any(each.fullmatch(host) for each in self._hosts)
        else:
            is_own = self._is_curated or (
                self._domain != "" and registrable_domain(host) == self._domain
            )
        if not is_own:
            reason = "is none of the `hosts` of the source"
            if self._domain and not self._hosts:
                reason = f"is outside of {self._domain}, from which the document was fetched"
            raise LeftOut(OTHER_HOSTS, path, f"{host} {reason}")


class Bounds:
    """Counts the paid operations of a document, and the bytes of their resources.

    name: of what is counted, and where, for messages
    """

    def __init__(self, most: int, name: str = "paid operations, the most of one document") -> None:
        self._most, self._name = most, name
        self._count = self._bytes = 0

    def count(self, place: str) -> None:
        """Count the paid operation at a JSON path; raises LeftOut beyond the most."""
        if self._count >= self._most:
            raise LeftOut(SIZE, place, f"follows {self._most:,} {self._name}")
        self._count += 1

    def fit(self, content: bytes, place: str) -> bytes:
        """Return a resource that fits in those of the document; raises LeftOut."""
        if self._bytes + len(content) > MAX_RESOURCES:
            reason = f"exceeds the {MAX_RESOURCES:,} bytes that the resources of a document have"
            raise LeftOut(SIZE, place, reason)
        self._bytes += len(content)
        return content
