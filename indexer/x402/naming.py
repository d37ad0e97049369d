"""Host names: what to call a service that declares no name of its own."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address

# Where anybody may have a host: what comes before names the service, what comes after does not.
_PLATFORMS = """
azurewebsites.net deno.dev dev-mypinata.cloud firebaseapp.com fly.dev github.io herokuapp.com
hf.space labs.vercel.dev localcan.dev lovable.app modal.run mypinata.cloud netlify.app
ngrok-free.app ngrok-free.dev ngrok.app ngrok.dev ngrok.io ondigitalocean.app onrender.com pages.dev
railway.app repl.co replit.app replit.dev run.app supabase.co trycloudflare.com up.railway.app
vercel.app vercel.dev web.app workers.dev zuplo.dev
"""
# The second level of national domains such as co.uk.
_SECOND_LEVELS = "ac co com edu gov net org"
# Words that say how a service is reached and not what it is.
_GENERIC = """
agents api apis app backend endpoint gateway http https mcp openapi pay prod production public rest
server service services v1 v2 v3 worker www x402
"""
_INITIALS = """
ai api db dex dns gpt id ip ipfs json kyc llm mcp nft ocr pdf qr rpc sdk seo sms sql stt svg tts url
usdc vpn
"""

PLATFORMS = frozenset(_PLATFORMS.split())
SECOND_LEVELS = frozenset(_SECOND_LEVELS.split())
GENERIC = frozenset(_GENERIC.split())
INITIALS = frozenset(_INITIALS.split())

_word = re.compile(r"[^-_]+")
_uuid = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_random = re.compile(r"(?!.*402)(?![a-z]{2,}\d{1,2}$)(?=.*\d)(?=.*[a-z])[a-z0-9]{4,}$")


def readable_name(domain: str) -> str:
    """A name for the service at this host: `api.weather-data.example` is Weather Data.

    The registered name comes first, then what else its host says: `mesh.heurist.xyz` is
    Heurist Mesh. Where nothing but chance named the host, it is the host.
    """
    host = domain if domain.count(":") > 1 else domain.partition(":")[0]
    if _is_ip_address(host):
        return host
    labels = host.split(".")
    words = _hosted_words(labels) if _platform(labels) else _registered_words(labels)
    return " ".join(map(_capitalised, dict.fromkeys(words))) or host


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return ":" in host  # an IPv6 address with its port
    return True


def _platform(labels: list[str]) -> int:
    """How many labels name the platform; none when the name is registered."""
    found = (length for length in (3, 2) if ".".join(labels[-length:]) in PLATFORMS)
    return next(found, 0)


def _hosted_words(labels: list[str]) -> list[str]:
    before = labels[: -_platform(labels)]
    if not before or _uuid.match(before[0]):
        return []
    label = before[-1] if labels[-2:] == ["pages", "dev"] else before[0]  # after a deployment's
    return _telling([word for word in _words(label) if not _random.match(word)])


def _registered_words(labels: list[str]) -> list[str]:
    national = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in SECOND_LEVELS
    names = labels[: -2 if national else -1][::-1] or labels
    return _telling([word for label in names for word in _words(label)])


def _telling(words: list[str]) -> list[str]:
    """The words that are not generic, or all of them when those would say nothing."""
    telling = [word for word in words if word not in GENERIC]
    return telling if any(not word.isdecimal() for word in telling) else words


def _words(label: str) -> list[str]:
    with suppress(UnicodeError):  # then it is no name in letters, whatever it starts with
        label = label.encode("ascii").decode("idna")
    return _word.findall(label)


def _capitalised(word: str) -> str:
    if word in INITIALS:
        return word.upper()
    return word if word.startswith("x4") else word[:1].upper() + word[1:]
