"""Assembly: from the inputs of a build to its services, in listing order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from indexer.catalogue.catalogue import Catalogue, ListedService
from indexer.catalogue.derived_ids import plain_id
from indexer.catalogue.identity import Identifier
from indexer.catalogue.intake import Intake, Reading
from indexer.catalogue.known import open_results
from indexer.catalogue.merge import PATH, Merger
from indexer.catalogue.overlays import Overlays, read_overlays
from indexer.catalogue.probed import ProbedCatalogue, probe_catalogue
from indexer.catalogue.table import open_table
from indexer.decisions import Decisions, DecisionTable
from indexer.derive.reuse import ReuseStore
from indexer.errors import SourceFailed
from indexer.intake.findings import Findings, State, Tally
from indexer.intake.lists import LIST_KINDS
from indexer.intake.rules import Denials, Rules, TakenDown
from indexer.intake.sources import Input, Inputs
from indexer.options import BuildOptions, Denial, SourceOptions
from indexer.payments.claims import Claim, claims_of_listings, claims_of_record
from indexer.payments.credit import count_credits
from indexer.payments.demand import ServiceDemand
from indexer.payments.load import open_payments
from indexer.processes.pool import Pool
from indexer.progress import Progress
from indexer.resources.assets import find_stablecoins
from indexer.snapshot.ecosystem import count_payments, write_ecosystem
from indexer.text import count_of
from indexer.untrusted import MICROSECOND
from service.arrays.files import read_json
from service.errors import SnapshotUnavailable
from service.schema.demand import DemandInputs
from service.schema.values import EPOCH
from service.snapshot.manifest import MANIFEST
from service.snapshot.publication import find_served, read_current

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FUTURE = "is more than an hour in the future"
"""The reason of payments that a later build accepts."""


class BuildContext(NamedTuple):
    """The parts of a build that all of its stages use.

    staging: the folder of the build, which is removed at its end
    reuse: the files that earlier builds left
    """

    staging: Path
    options: BuildOptions
    reuse: ReuseStore
    findings: Findings
    progress: Progress
    pool: Pool
    now: datetime

    @property
    def built(self) -> Path:
        """The folder of the snapshot."""
        return self.staging / "snapshot"


class _ReadSource(Struct):
    name: str
    records: int


class _Read(Struct):
    """The part of a manifest of any format that says what was read."""

    sources: list[_ReadSource] = []


class Assembled(Struct):
    """The services of a build in listing order, with the facts and decisions about them.

    accepted: the sources that were accepted
    denials: hashes of the denied values
    holds_until: until when a build of the same inputs is the same, None for ever
    """

    listing: list[ListedService]
    catalogue: Catalogue
    probed: ProbedCatalogue
    accepted: list[Reading]
    denials: list[str]
    decisions: Decisions
    overlays: Overlays
    payments: int
    holds_until: datetime | None


def payment_inputs(inputs: Iterable[Input]) -> list[SourceOptions]:
    """Return sources of payments as they are loaded."""
    return [replace(each.options, path=each.path) for each in inputs]


def _taken_down(denied: Iterable[Denial]) -> Iterator[str]:
    """Yield the ids that are taken down, also the plain ids of domains."""
    for each in denied:
        if each.id:
            yield each.id
        elif each.domain:
            with suppress(ValueError):
                yield plain_id(each.domain)


def _check_first(options: BuildOptions, accepted: Iterable[Reading]) -> None:
    """Raise SourceFailed where rules leave out all listings of a first build.

    Documents are no lists of listings: all that they describe may be free, or without a price.
    """
    with suppress(SnapshotUnavailable):
        read_current(options.out)
        return
    lists = [each for each in accepted if each.kind in {None, *LIST_KINDS}]
    left_out = [each for each in lists if each.tally.left_out]
    names = list(dict.fromkeys(each.input.source_name for each in left_out))
    if options.accept.isdisjoint({*names, *(each.input.name for each in left_out)}) and names:
        reasons = "".join(
            f"\n  {count:,} left out of {each.input.name} ({rule})"
            for each in left_out
            for rule, count in each.tally.left_out.items()
        )
        records = sum(each.tally.records for each in lists)
        raise SourceFailed(
            f"0 of {records:,} records would be published, by a first build; change the rules that "
            f"leave them out, or if that is right, --accept {names[0]} takes it once{reasons}"
        )


class Assembler:
    """Makes services of inputs; `assemble` has the stages in order."""

    def __init__(self, context: BuildContext, served: DecisionTable) -> None:
        self._context, self._findings = context, context.findings
        self._decisions = Decisions(served)

    @contextmanager
    def assemble(self, inputs: Inputs) -> Iterator[Assembled]:
        """Yield the services; the tables of payments are written to the snapshot."""
        context, options, findings = self._context, self._context.options, self._findings
        findings.notes += inputs.notes
        overlays = read_overlays(each.path for each in inputs.overlays)
        denied = (*options.policy.deny, *overlays.denials)
        rules = Rules(options.policy, Denials(denied), context.now)
        with (
            open_table(context.staging) as table,
            open_results(context.staging, context.reuse.results()) as known,
        ):
            catalogue = Catalogue(table, known, options.policy.max_price)
            accepted = self._read(inputs, catalogue, rules)
            with context.progress.stage("merge"):
                merger = Merger(table, self._decisions, rules, findings)
                merger.merge()
                identifier = self._identify(catalogue, merger, denied)
            self._remove(catalogue, merger, rules.denials)
            self._decisions.conflicts = merger.conflicts
            for conflict in self._decisions.conflicts:
                findings.note_conflict(conflict)
            identifier.note_second_services()
            with self._payments(inputs, rules) as payments:
                self._judge_payments(inputs.payments, findings.tallies[len(catalogue.sources) :])
                count, statistics = count_payments(payments)
                demands, totals = self._credit(payments, catalogue)
                self._amend(catalogue, overlays, demands)
            if not self._is_skipped:  # what matches nothing may match the skipped source
                findings.unused_overlays += overlays.unused(rules.denials.counts)
                findings.unused_denials += rules.denials.unused(options.policy.deny)
            probed = self._probe(inputs.probes, catalogue, rules)
            listing = catalogue.order()
            if not listing:
                _check_first(options, accepted)
            write_ecosystem(context.built, statistics, totals, catalogue.demand(listing))
            yield Assembled(
                listing=listing,
                catalogue=catalogue,
                probed=probed,
                accepted=accepted,
                denials=rules.denials.hashes(),
                decisions=self._decisions,
                overlays=overlays,
                payments=count,
                holds_until=self._holds_until(rules),
            )

    def _read(self, inputs: Inputs, catalogue: Catalogue, rules: Rules) -> list[Reading]:
        """Read all sources; returns those that were accepted as they are now."""
        context = self._context
        intake = Intake(
            context.options, rules, catalogue, context.pool, self._findings, context.now
        )
        sizes = [None if each.is_compressed else each.size for each in inputs.sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        with context.progress.stage("read", total, in_bytes=True) as reading:
            intake.read(inputs.sources, reading)
        return intake.accepted

    @property
    def _is_skipped(self) -> bool:
        """Whether a source is skipped."""
        return any(each.state is State.SKIPPED for each in self._findings.tallies)

    def _identify(
        self, catalogue: Catalogue, merger: Merger, denied: Iterable[Denial]
    ) -> Identifier:
        """Give every service its id; nobody takes over an id while its source is skipped."""
        held = set(_taken_down(denied))
        if self._is_skipped:
            held |= self._decisions.served_ids
        identifier = Identifier(catalogue, merger, self._decisions, self._findings)
        limit = self._context.options.policy.endpoints_per_service
        identifier.identify(self._context.pool, held, limit)
        if self._is_skipped:
            self._decisions.keep()
        return identifier

    def _remove(self, catalogue: Catalogue, merger: Merger, denials: Denials) -> None:
        """Remove services that are taken down, with their items."""
        for service in [*catalogue.services.values()]:
            if denial := denials.find(id=service.id, domain=service.domain):
                catalogue.remove(service, denial, self._findings)
                fault = TakenDown(PATH, denial, "belongs to a service that is taken down")
                for row, _ in catalogue.table.of_service(service.number):
                    if row.leader is None:
                        merger.drop(row, fault)

    def _payments(
        self, inputs: Inputs, rules: Rules
    ) -> AbstractContextManager[DuckDBPyConnection | None]:
        context = self._context
        return open_payments(
            context.staging,
            payment_inputs(inputs.payments),
            self._findings,
            context.now,
            context.progress,
            jobs=context.pool.jobs,
            memory=context.pool.memory,
            stablecoins=find_stablecoins(rules.policy.stablecoins),
        )

    def _judge_payments(self, inputs: list[Input], tallies: list[Tally]) -> None:
        """Raise TooManyRejects for malformed payments, and for a file that has lost all its rows.

        It had rows when the served snapshot was built, of whatever format that is.
        """
        options = self._context.options
        manifests = (read_json(each / MANIFEST, _Read) for each in find_served(options.out))
        sources = next((each.sources for each in manifests if each is not None), [])
        before = {each.name for each in sources if each.records}
        for each, tally in zip(inputs, tallies, strict=True):
            if not options.accept.isdisjoint({each.name, each.source_name}):
                continue
            if not tally.records and tally.source in before:
                advice = f"if that is right, --accept {each.source_name} takes it once"
                raise SourceFailed(f"{each.name}: has lost all its payments; {advice}")
            self._findings.check(tally, options.max_rejects, name=each.source_name)

    def _credit(
        self, payments: DuckDBPyConnection | None, catalogue: Catalogue
    ) -> tuple[Iterator[ServiceDemand | None], DemandInputs]:
        """Return the demand of each service, none without payments, and the totals."""
        self._findings.flush()
        if payments is None:
            self._decisions.keep_claims()
            return iter(()), DemandInputs()
        of_services = (_claims_of(each, catalogue) for each in catalogue.services.values())
        credited = count_credits(payments, of_services, self._decisions)
        if credited.shared:
            self._findings.notes.append(
                f"several services fit {count_of(credited.shared, 'payment')} of 30 days, "
                f"credited to none; credited in all: {credited.credited:,}"
            )
        return credited.demand, credited.inputs

    def _amend(
        self, catalogue: Catalogue, overlays: Overlays, demands: Iterator[ServiceDemand | None]
    ) -> None:
        """Fill in usage where the records have none, and apply the overlays."""
        for service in catalogue.services.values():
            demand, overlay = next(demands, None), overlays.take(service.id, service.domain)
            if demand is not None or overlay is not None:
                text = catalogue.text(service)
                filled = text if demand is None else demand.fill_usage(text)
                counted = None if demand is None else demand.describe(text)
                catalogue.amend(service, filled, counted, overlay)
            profile = None if overlay is None else overlay.profile
            if profile or overlays.has_urls:
                described = overlays.describe(catalogue.text(service))
                catalogue.annotate(service, profile, described)
            if overlays.has_urls:
                for _, listing in catalogue.table.listings(service.number):
                    overlays.describe_url(listing.url)  # which counts it as used

    def _probe(self, inputs: list[Input], catalogue: Catalogue, rules: Rules) -> ProbedCatalogue:
        """Read what probers saw of the endpoints."""
        if not inputs:
            return ProbedCatalogue()
        context = self._context
        with context.progress.stage("read the probes", in_bytes=True) as reading:
            probed = probe_catalogue(
                inputs,
                catalogue,
                rules,
                self._findings,
                spool=context.staging / "probes",
                now=context.now,
                max_rejects=context.options.max_rejects,
                progress=reading,
            )
        self._findings.flush()
        return probed

    def _holds_until(self, rules: Rules) -> datetime | None:
        """Return until when a build of the same inputs is the same, None for ever."""
        tallies = self._findings.tallies
        if any(each.state is not State.CURRENT or each.find(FUTURE) for each in tallies):
            return self._context.now
        until = rules.holds_until
        return None if until is None else EPOCH + until * MICROSECOND


def _claims_of(service: ListedService, catalogue: Catalogue) -> list[Claim]:
    """Return the claims of a service: of its own record, and of its listings."""
    text, owner = catalogue.text(service), service.domain or service.id
    own = [] if service.discovered else [*claims_of_record(text, owner, service.trust)]
    listings = catalogue.table.listings(service.number)
    trusted = ((row.trust, listing) for row, listing in listings)
    return [*own, *claims_of_listings(text, owner, trusted)]
