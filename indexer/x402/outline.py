"""Outlines: the values of resources that rules, merging and ordering look at."""

from __future__ import annotations

from msgspec import Struct

from indexer.sources.findings import Notice
from indexer.sources.subjects import Address, Subject
from service.schema.listings import Advice
from service.snapshot.listings import host_hash, payee_hash
from service.storage.hash_table import text_hash
from service.urls import key_of


class Outline(Struct, array_like=True, gc=False, tag="resource"):
    """The values of a resource that rules, merging and ordering look at.

    The bytes of a whole resource decode as its outline too, which takes a third of the time.

    given: its normalised URL
    identity, method, tool: what distinguishes it from other resources; `identity` is the
        normalised URL, with its route template if it has one; of a tool that is identified by
        its name it is the server, or the seller
    domain: what the resources of one service share
    updated: microseconds of Unix time, or NEVER
    latest: of all its dates, likewise
    payees: the addresses that its entries pay to, as they are compared
    price: in units of the currency, 0 where none is known
    is_listed: whether there is an entry of `accepts`
    advice: to its seller, as bits
    tool_url: the identifier of a tool, where the resource has one for its URL
    is_pointer: whether it is a bare pointer, of which another source has to say more
    service: path of the service that its document says it belongs to, in lower case; empty where
        that is the host
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
    is_pointer: bool
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
