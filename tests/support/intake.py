"""Catalogue files with their sources, and what the intake makes of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from indexer.assembly import Assembler, BuildContext
from indexer.cli.main import main
from indexer.decisions import FILE, DecisionTable
from indexer.derive.reuse import ReuseStore
from indexer.intake.findings import Findings
from indexer.intake.sources import find_inputs
from indexer.options import BuildOptions, Kind, SourceOptions
from indexer.processes.pool import Pool
from indexer.progress import Progress
from indexer.resources.listing import encode_listing
from service.conditions import ResourceFilters
from service.snapshot.snapshot import open_snapshot
from tests.support.running import Json, payment, toml_table, write_lines
from tests.support.sources.x402 import USDC

PLAIN = ("--no-semantic", "--no-downloads")
"""Options of a build that is about nothing but its sources."""
NOW = datetime(2026, 6, 1, tzinfo=UTC)
HERE, THERE = "0x" + "11" * 20, "0x" + "22" * 20
"""Addresses that are paid to."""
payments: st.SearchStrategy[list[Json]] = st.lists(
    st.builds(
        lambda payer, payee, amount, token, number: payment(
            sender=payer,
            recipient=payee,
            amount=amount,
            tx_hash=hex(number),
            token_address=token,
        ),
        st.sampled_from(["0xa1", HERE]),
        st.sampled_from([HERE, THERE, "0xPay", "0xOther"]),
        st.sampled_from([10_000, 20_000, 1]),
        st.sampled_from([USDC, None]),
        st.integers(1, 2**32),
    ),
    min_size=1,
    max_size=8,
)
"""Payments to listed and unlisted addresses, of which some are of one transaction."""


def source(name: str, given: list[Any] | str, **keys: Any) -> Json:
    """Return a `[[source]]` of records, or of a URL that is walked by every build."""
    if isinstance(given, list):
        return {"name": name, "items": given} | keys
    return {"name": name, "url": given, "every": 0} | keys


class CatalogueFolder:
    """A folder with a catalogue file, which each build writes anew, and its artifacts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.artifacts = folder / "artifacts"

    def write(self, *sources: Json, **policy: Any) -> str:
        """Write the catalogue file and the files of its sources; returns its path."""
        tables = [f"[policy]\n{toml_table(policy)}"]
        for each in sources:
            keys = dict(each)
            if (items := keys.pop("items", None)) is not None:
                keys["path"] = f"{keys['name']}.jsonl"
                write_lines(self._folder / keys["path"], items)
            tables.append(f"[[source]]\n{toml_table(keys)}")
        path = self._folder / "catalogue.toml"
        path.write_text("\n".join(tables))
        return str(path)

    def build(self, *sources: Json, options: Sequence[str] = (), **policy: Any) -> int:
        """Build from sources; returns the exit status."""
        path = self.write(*sources, **policy)
        return main(["build", path, "--out", str(self.artifacts), *PLAIN, *options])


def listings(artifacts: Path) -> dict[str, Json]:
    """Return the listings of the published snapshot by method, if they declare one, and URL.

    No two of them may have the same of both.
    """
    page = open_snapshot(artifacts).resources.list(ResourceFilters(), 10_000, 0)
    assert not page.is_cut
    found = [json.loads(text) for text in json_texts(page.texts)]
    assert len(found) == page.total
    named = {
        f"{each['ratecard']['endpoint']['method']} {each['resource']}".strip(): each
        for each in found
    }
    assert len(named) == len(found), found
    return named


def json_texts(slices: Iterable[memoryview]) -> list[bytes]:
    """Return the JSON texts of slices of a page."""
    values = msgspec.json.decode(b"[%b]" % b",".join(slices), type=list[msgspec.Raw])
    return [bytes(each) for each in values]


class Intaken(NamedTuple):
    """The result of an intake: bytes of services and listings, decisions, and a number of payments.

    services: by id, in listing order
    listings: by domain, URL, method and tool
    records: the discovered services by domain
    """

    services: dict[str, bytes]
    listings: dict[tuple[str, str, str, str], bytes]
    records: dict[str, bytes]
    decisions: DecisionTable
    payments: int


class Offer(NamedTuple):
    """A source of records in memory, for `take_in`."""

    name: str
    items: list[Any]
    trust: int = 0
    kind: Kind | None = Kind.RESOURCES
    curated: bool = False


def take_in(
    folder: Path,
    offers: Sequence[Offer],
    served: DecisionTable | None = None,
    payments: Sequence[Json] = (),
) -> Intaken:
    """Read and merge sources as a build does, without an index and without publishing."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        return _take_in(Path(name), offers, served, payments)


def _take_in(
    staging: Path, offers: Sequence[Offer], served: DecisionTable | None, payments: Sequence[Json]
) -> Intaken:
    sources = [
        SourceOptions(
            name=each.name,
            path=_write(staging / f"{each.name}.json", each.items),
            trust=each.trust,
            kind=each.kind,
            curated=each.curated,
        )
        for each in offers
    ]
    if payments:
        path = _write(staging / "payments.jsonl", payments)
        sources.append(SourceOptions(name="payments", path=path, kind=Kind.PAYMENTS))
    options = BuildOptions(sources=tuple(sources), out=staging, jobs=1, max_rejects=Fraction(1))
    context = BuildContext(
        staging,
        options,
        ReuseStore(staging),
        Findings(None),
        Progress(quiet=True),
        Pool(jobs=1, memory=2**30),
        NOW,
    )
    context.built.mkdir()
    assembler = Assembler(context, served or DecisionTable())
    with assembler.assemble(find_inputs(options)) as assembled:
        entries, catalogue = assembled.listing, assembled.catalogue
        services = {each.id: catalogue.text(each) for each in entries}
        records = {each.domain: services[each.id] for each in entries if each.discovered}
        found = {
            (each.domain, listing.url, listing.method, listing.tool): (
                encode_listing(listing, each.id)
            )
            for each in entries
            for _, listing in catalogue.table.listings(each.number)
        }
    assembled.decisions.write(staging)
    decisions = msgspec.json.decode((staging / FILE).read_bytes(), type=DecisionTable)
    return Intaken(services, found, records, decisions, assembled.payments)


def _write(path: Path, items: Sequence[Any]) -> str:
    """Write JSON lines of payments, and an array of anything else, which may be empty."""
    if path.suffix == ".jsonl":
        return write_lines(path, items)
    path.write_text(json.dumps(items))
    return str(path)
