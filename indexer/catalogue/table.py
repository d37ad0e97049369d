"""The table of a build: items and services on disk, in one SQLite file of the staging folder.

A row of `items` has the values by which an item is merged and ordered; its texts stand beside it,
so that a change of a row writes few bytes. A row of `services` has the texts of a record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from indexer.errors import IndexerError
from indexer.resources.resource import Resource

DROPPED = -1
"""The leader of an item that is not listed."""
FILE = "items.sqlite"
SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA page_size = 32768;
PRAGMA cache_size = -8192;  -- KiB
BEGIN;  -- so that pages are written where the cache is full
CREATE TABLE items (
    number INTEGER PRIMARY KEY, source INTEGER, trust INTEGER, position TEXT, domain TEXT, url TEXT,
    method TEXT, tool TEXT, given TEXT, path TEXT, payees TEXT, updated INTEGER, is_listed INTEGER,
    in_record INTEGER, leader INTEGER, service INTEGER
);
CREATE INDEX items_by_key ON items (domain, url, tool, method);
CREATE INDEX items_by_call ON items (domain, given) WHERE given != url;
CREATE INDEX items_by_service ON items (service) WHERE service IS NOT NULL;
CREATE INDEX items_by_leader ON items (leader) WHERE leader IS NOT NULL;
CREATE TABLE contents (number INTEGER PRIMARY KEY, text BLOB, resource BLOB);
CREATE TABLE services (number INTEGER PRIMARY KEY, text BLOB, annotations BLOB, demand BLOB);
"""

_payees = msgspec.json.Decoder(list[str])
decode_resource = msgspec.msgpack.Decoder(Resource).decode
encode_resource = msgspec.msgpack.Encoder().encode


class ItemRow(NamedTuple):
    """An item: its place in its source, and the values by which it is merged and ordered.

    url, given: in normal form, with and without a route template
    path: of the service that a document names
    payees: JSON of the addresses that are paid
    in_record: whether the record of its service has it
    leader: the item that it was merged into, DROPPED without one; None for an item that is listed
    """

    number: int | None
    source: int
    trust: int
    position: str
    domain: str
    url: str
    method: str
    tool: str
    given: str
    path: str
    payees: str
    updated: int
    is_listed: int
    in_record: int = 1
    leader: int | None = None

    @property
    def key(self) -> str:
        """The key that no other listing has, and that orders the listings of a service."""
        return f"{self.url}\n{self.method}\n{self.tool}"

    @property
    def paid(self) -> list[str]:
        """The addresses that are paid."""
        return _payees.decode(self.payees)


COLUMNS = ", ".join(ItemRow._fields)


class ItemTable:
    """The items and services of a build."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute, self._execute_many = connection.execute, connection.executemany
        connection.executescript(SCHEMA)

    def put_item(self, row: ItemRow, text: bytes, resource: bytes) -> int:
        """Add an item, or replace the one of its number; returns the number."""
        marks = ", ".join("?" * len(row))
        cursor = self._execute(f"REPLACE INTO items ({COLUMNS}) VALUES ({marks})", row)  # noqa: S608
        number = int(cursor.lastrowid or 0)
        self._execute("REPLACE INTO contents VALUES (?, ?, ?)", (number, text, resource))
        return number

    @property
    def last(self) -> int:
        """The number of the last item, 0 without any."""
        ((number,),) = self._execute("SELECT coalesce(max(number), 0) FROM items")
        return int(number)

    def remove_after(self, number: int) -> None:
        """Remove the items that were added after one."""
        self._execute("DELETE FROM items WHERE number > ?", (number,))
        self._execute("DELETE FROM contents WHERE number > ?", (number,))

    def domains(self) -> dict[str, int]:
        """Return the domains of items that no service has, each with its greatest trust.

        They are in the order of the first of their most trusted sources.
        """
        query = (
            "SELECT domain, max(trust), source FROM (SELECT domain, trust, min(source) AS source "
            "FROM items WHERE leader IS NULL AND service IS NULL GROUP BY domain, trust) "
            "GROUP BY domain ORDER BY 2 DESC, 3, 1"
        )
        return {domain: trust for domain, trust, _ in self._execute(query)}

    def paths(self) -> dict[str, list[str]]:
        """Return the paths of the services of a domain that has several."""
        query = (
            "SELECT DISTINCT domain, path FROM items WHERE path != '' AND leader IS NULL "
            "ORDER BY domain, path"
        )
        found = groupby(self._execute(query), key=lambda each: str(each[0]))
        return {domain: [path for _, path in each] for domain, each in found}

    def rows(self, domain: str) -> list[ItemRow]:
        """Return the listed items of a domain that no service has, by URL, tool and method."""
        where = "domain = ? AND leader IS NULL AND service IS NULL ORDER BY url, tool, method"
        return [*self._rows(where, domain)]

    def rows_at(self, domain: str, url: str) -> list[ItemRow]:
        """Return the listed items of a URL, with a route template or without, as `rows` does."""
        where = "domain = ? AND leader IS NULL AND service IS NULL AND "
        templated = self._rows(f"{where} given = ? AND given != url ORDER BY number", domain, url)
        return [*self._rows(f"{where} url = ? ORDER BY tool, method", domain, url), *templated]

    def unserved(self, domain: str) -> list[tuple[ItemRow, bytes]]:
        """Return the listed items of a domain that no service has, by key, with their resources."""
        where = "domain = ? AND leader IS NULL AND service IS NULL ORDER BY url, method, tool"
        return self._with_resources(where, domain)

    def of_service(self, service: int) -> list[tuple[ItemRow, bytes]]:
        """Return the items of a service by key, with their resources.

        Each is before those that were merged into it.
        """
        where = "service = ? ORDER BY url, method, tool, leader IS NOT NULL, number"
        return self._with_resources(where, service)

    def lead(self, number: int, followers: Iterable[int | None]) -> None:
        """Make an item the one that others are merged into."""
        pairs = [(number, each) for each in followers]
        self._execute_many("UPDATE items SET leader = ? WHERE number = ?", pairs)

    def drop(self, number: int | None) -> list[ItemRow]:
        """Unlist an item; returns it, and those that were merged into it."""
        dropped = [*self._rows("number = ?1 OR leader = ?1", number)]
        self.lead(DROPPED, (each.number for each in dropped))
        return dropped

    def assign(self, service: int, rows: Iterable[ItemRow]) -> None:
        """Give items to a service, with those that were merged into them."""
        values = [(service, row.in_record, row.number) for row in rows]
        for where in ("number", "leader"):
            query = f"UPDATE items SET service = ?, in_record = ? WHERE {where} = ?"  # noqa: S608
            self._execute_many(query, values)

    def listings(self, service: int) -> Iterator[tuple[ItemRow, Resource]]:
        """Yield the listings of a service, by URL, method and tool."""
        for row, resource in self.of_service(service):
            if row.is_listed and row.leader is None:
                yield row, decode_resource(resource)

    def text(self, number: int) -> bytes:
        """Return the text of an item as its source has it."""
        return self._content("text", number)

    def resource(self, number: int | None) -> bytes:
        """Return the bytes of an item for `decode_resource`."""
        return self._content("resource", number)

    def put_service(
        self, text: bytes, annotations: bytes, demand: bytes = b"", number: int | None = None
    ) -> int:
        """Add the texts of a service, or replace those of a number; returns the number."""
        values = number, text, annotations, demand
        return int(
            self._execute("REPLACE INTO services VALUES (?, ?, ?, ?)", values).lastrowid or 0
        )

    def service(self, number: int) -> tuple[bytes, bytes, bytes]:
        """Return the record of a service, its annotations and its demand."""
        query = "SELECT text, annotations, demand FROM services WHERE number = ?"
        ((text, annotations, demand),) = self._execute(query, (number,))
        return text, annotations, demand

    def _content(self, column: str, number: int | None) -> bytes:
        query = f"SELECT {column} FROM contents WHERE number = ?"  # noqa: S608
        ((content,),) = self._execute(query, (number,))
        return bytes(content)

    def _with_resources(self, where: str, *values: object) -> list[tuple[ItemRow, bytes]]:
        query = f"SELECT resource, {COLUMNS} FROM items JOIN contents USING (number) WHERE {where}"  # noqa: S608
        return [(ItemRow(*each), resource) for resource, *each in self._execute(query, values)]

    def _rows(self, where: str, *values: object) -> Iterator[ItemRow]:
        query = f"SELECT {COLUMNS} FROM items WHERE {where}"  # noqa: S608
        return (ItemRow(*each) for each in self._execute(query, values).fetchall())


def row_of(resource: Resource, source: int, trust: int, position: str) -> ItemRow:
    """Return the row of an item that is read."""
    return ItemRow(
        number=None,
        source=source,
        trust=trust,
        position=position,
        domain=resource.domain,
        url=resource.identity,
        method=resource.method,
        tool=resource.tool,
        given=resource.given,
        path=resource.service,
        payees=msgspec.json.encode(resource.payees).decode(),
        updated=resource.updated,
        is_listed=int(resource.is_listed),
    )


@contextmanager
def open_table(folder: Path) -> Iterator[ItemTable]:
    """Create the table of a build in a folder; a fault of the disk raises IndexerError."""
    try:
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
            yield ItemTable(connection)
    except sqlite3.Error as error:
        raise IndexerError(f"the items of the sources cannot be kept on disk: {error}") from error
