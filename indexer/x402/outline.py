"""Outlines: the values of resources that rules, merging and ordering look at."""

from __future__ import annotations

from msgspec import Struct

from indexer.intake.findings import Address, Notice, Subject
from service.schema.listings import Advice
from service.snapshot.listings import host_hash, payee_hash
from service.storage.hash_table import text_hash
from service.urls import key_of


class Outline(Struct, array_like=True, gc=False, tag="resource"):
    """The values of a resource that rules, merging and ordering look at.

    The bytes of a whole resource decode as its outline too, in a third of the time.

    given: the normalised URL
    identity: the normalised URL, with a route template if there is one; the server or the seller
        of a tool that is identified by its name
    domain: of the service
    updated: microseconds of Unix time, or NEVER
    latest: of all dates, likewise
    payees: the addresses that are paid, as they are compared
    price: in units of the currency, 0 where none is known
    is_listed: whether there is an entry of `accepts`
    advice: to the seller, as bits
    tool_url: the identifier of a tool, where it stands for the URL
    service: path of the service that a document names, in lower case; empty for the host
    """

    given: str
    identity: str
    method: str
    tool: str
    host: str
    domain: str
    is_http: bool
    is_private: bool
    updated: int
    latest: int
    payees: list[str]
    price: float
    notices: list[Notice]
    is_listed: bool
    advice: int
    tool_url: str
    service: str

    @property
    def key(self) -> str:
        """The key that no other resource has, and that orders the listings of a service."""
        return f"{self.identity}\n{self.method}\n{self.tool}"


def subject_of(outline: Outline) -> Subject:
    """Return what a resource names: its URL and route template, or the server and URL of a tool."""
    host = host_hash(outline.host)
    urls = filter(None, (outline.given, outline.identity, outline.tool_url))
    addresses = [Address(text_hash(url), host) for url in dict.fromkeys(map(key_of, urls))]
    payees = tuple(map(payee_hash, outline.payees))
    return Subject(tuple(addresses), payees, Advice(outline.advice))
