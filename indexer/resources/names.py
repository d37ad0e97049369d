"""Names of services that declare none, derived from their hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

import idna
from publicsuffixlist import PublicSuffixList

from service.urls import is_ip_address

# Hosting platforms that the Public Suffix List lacks.
PLATFORMS = ("dev-mypinata.cloud", "localcan.dev", "modal.run", "mypinata.cloud", "zuplo.dev")

# Words that say how a service is reached rather than what it is.
_GENERIC = """
agents api apis app backend endpoint gateway http https mcp openapi pay prod production public rest
server service services v1 v2 v3 worker www x402
"""
_ACRONYMS = """
ai api db dex dns gpt id ip ipfs json kyc llm mcp nft ocr pdf qr rpc sdk seo sms sql stt svg tts url
usdc vpn
"""
GENERIC = frozenset(_GENERIC.split())
ACRONYMS = frozenset(_ACRONYMS.split())

_word = re.compile(r"xn--.+|[^-_]+")
_uuid = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Letters mixed with digits, unless they are a word with a number or mention x402.
_random = re.compile(r"(?!.*402)(?![a-z]{2,}\d{1,2}$)(?=.*\d)(?=.*[a-z])[a-z0-9]{4,}$")


def readable_name(domain: str) -> str:
    """Return a name for the service at a domain: `api.weather-data.example` is Weather Data.

    The registered name comes before its subdomains: `mesh.heurist.xyz` is Heurist Mesh. A host
    without a telling word is its own name. A label beyond ASCII stays in its ASCII form, since its
    letters may look like others.
    """
    host = _without_port(domain)
    if _is_address(host):
        return host
    labels, is_hosted = _private_labels(host.split("."))
    words = _hosted_words(labels) if is_hosted else _telling(_words(labels))
    return " ".join(map(_capitalise, dict.fromkeys(words))) or host


def host_labels(host: str) -> list[str]:
    """Return the labels of a host that tell whose it is, as words.

    Public suffixes, PLATFORMS and GENERIC words are left out.
    """
    host = _without_port(host)
    if not host.strip(".") or _is_address(host):
        return []
    labels, _ = _private_labels(host.lower().split("."))
    words = dict.fromkeys(_words(map(_unicode, labels)))
    return [word for word in words if word not in GENERIC]


@lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """Return the name below a public suffix that a host belongs to, or the host itself."""
    if _is_address(host):
        return host
    suffixes, _ = _suffix_lists()
    return suffixes.privatesuffix(".".join(map(_unicode, host.split(".")))) or host


def _without_port(domain: str) -> str:
    return domain if domain.count(":") > 1 else domain.partition(":")[0]


def _is_address(host: str) -> bool:
    return ":" in host or is_ip_address(host)  # IPv6 may have a port


def _unicode(label: str) -> str:
    """Decode an A-label of IDNA 2008; return any other label unchanged."""
    if not label.startswith("xn--"):
        return label
    try:
        return idna.decode(label)
    except idna.IDNAError:
        return label


def _private_labels(labels: list[str]) -> tuple[list[str], bool]:
    """Return the labels before the public suffix, and whether that is of a hosting platform.

    The order is that of their weight in a name.
    """
    host = ".".join(map(_unicode, labels))
    suffixes, registries = _suffix_lists()
    suffix = next(
        (platform for platform in PLATFORMS if f".{host}".endswith(f".{platform}")),
        suffixes.publicsuffix(host) or "",
    )
    private = labels[: len(labels) - len(suffix.split("."))]
    if suffix == registries.publicsuffix(host):
        return private[::-1] or labels[:1], False
    # On Pages a subdomain is a deployment of a project, and elsewhere it is the service.
    return private[::-1] if suffix == "pages.dev" else private, True


@cache
def _suffix_lists() -> tuple[PublicSuffixList, PublicSuffixList]:
    """Load the Public Suffix List, and its part that registries of domain names maintain."""
    return (
        PublicSuffixList(accept_encoded_idn=False),
        PublicSuffixList(accept_encoded_idn=False, only_icann=True),
    )


def _hosted_words(labels: list[str]) -> list[str]:
    """Return the words of the first label that has a telling one, else of the first with words."""
    candidates = [
        [word for word in _word.findall(label) if not _random.match(word)]
        for label in labels
        if not _uuid.match(label)
    ]
    first = next(filter(None, candidates), [])
    return _telling(next(filter(_is_telling, candidates), first))


def _words(labels: Iterable[str]) -> list[str]:
    return [word for label in labels for word in _word.findall(label)]


def _telling(words: list[str]) -> list[str]:
    return [word for word in words if word not in GENERIC] if _is_telling(words) else words


def _is_telling(words: list[str]) -> bool:
    return any(word not in GENERIC and not word.isdecimal() for word in words)


def _capitalise(word: str) -> str:
    if word in ACRONYMS:
        return word.upper()
    return word if word.startswith(("x4", "xn--")) else word[:1].upper() + word[1:]
