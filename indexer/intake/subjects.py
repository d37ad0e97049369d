"""Subjects: the URLs and payees that a record names, by which its fate is found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from service.schema.listings import Advice
from service.snapshot.listings import host_hash, payee_hash
from service.storage.hash_table import text_hash
from service.urls import ParsedUrl, find_url

NO_ADVICE = Advice(0)


class Address(NamedTuple):
    """The hashes of a URL in normal form, and of its host."""

    url: int
    host: int


class Subject(NamedTuple):
    """The URLs and the payees of a record, by their hashes, and advice to its seller."""

    addresses: tuple[Address, ...] = ()
    payees: tuple[int, ...] = ()
    advice: Advice = NO_ADVICE


NOTHING = Subject()


def make_subject(
    urls: Iterable[ParsedUrl], payees: Iterable[str] = (), advice: Advice = NO_ADVICE
) -> Subject:
    """Return the subject of a record that names these URLs and pays these addresses."""
    addresses = dict.fromkeys(map(address_of, urls))
    return Subject(tuple(addresses), tuple(dict.fromkeys(map(payee_hash, payees))), advice)


def address_of(url: ParsedUrl) -> Address:
    """Return the hashes of a URL."""
    return Address(text_hash(url.key), host_hash(url.host))


def find_address(url: str) -> Address | None:
    """Return the hashes of a URL, None if it is not one."""
    parsed = find_url(url)
    return address_of(parsed) if parsed else None
