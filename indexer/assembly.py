"""Assembly: from the inputs of a build to its services, in listing order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from indexer.catalogue.catalogue import Catalogue, ListedService
from indexer.catalogue.derived_ids import plain_id
from indexer.catalogue.intake import AcceptedInput, Intake
from indexer.catalogue.known_records import open_known_records
from indexer.catalogue.normaliser import RecordNormaliser
from indexer.catalogue.overlays import Overlays, read_overlays
from indexer.catalogue.probed import ProbedCatalogue, probe_catalogue
from indexer.errors import LeftOut, SourceFailed
from indexer.intake.findings import Findings, State
from indexer.intake.records import LISTS
from indexer.intake.sources import Input, Inputs
from indexer.options import BuildOptions, Denial, Policy
from indexer.payments.claims import Claim, claims_of_listings, claims_of_record
from indexer.payments.credit import count_credits
from indexer.payments.demand import ServiceDemand
from indexer.payments.files import PaymentInput
from indexer.payments.load import open_payments
from indexer.processes.pool import Pool
from indexer.progress import Progress
from indexer.record_store import Spool
from indexer.segments.reuse import ReuseStore
from indexer.snapshot.demand import write_demand
from indexer.snapshot.ecosystem import write_ecosystem
from indexer.sources.decisions import Decisions, DecisionTable
from indexer.sources.denials import Denials, TakenDown
from indexer.x402.discovery import Discovery, Place
from indexer.x402.members.dates import MICROSECOND
from indexer.x402.outline import subject_of
from indexer.x402.pointers import drop_pointers, join_pointers
from indexer.x402.readings import Readings
from indexer.x402.rules import Rules
from service.errors import SnapshotUnavailable
from service.schema.demand import DemandInputs
from service.schema.values import EPOCH
from service.snapshot.publication import read_current

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


class Assembled(Struct):
    """The services of a build in listing order, with the facts and decisions about them.

    accepted, rules: the sources that were accepted, and the rules for them
    denials: hashes of the denied values
    reused: the number of records that the last build had validated
    holds_until: until when a build of the same inputs is the same, None for ever
    """

    listing: list[ListedService]
    catalogue: Catalogue
    discovery: Discovery
    probed: ProbedCatalogue
    accepted: list[AcceptedInput]
    rules: Policy
    denials: list[str]
    reused: int
    decisions: Decisions
    overlays: Overlays
    payments: int
    holds_until: datetime | None


def payment_inputs(inputs: Iterable[Input]) -> list[PaymentInput]:
    """Return sources of payments as they are loaded."""
    return [
        PaymentInput(each.name, each.path, each.options.columns, each.options.chain)
        for each in inputs
    ]


def _taken_down(denied: Iterable[Denial]) -> Iterator[str]:
    """Yield the ids that are taken down, also the plain ids of domains."""
    for each in denied:
        if each.id:
            yield each.id
        elif each.domain:
            with suppress(ValueError):
                yield plain_id(each.domain)


def _check_first(options: BuildOptions, accepted: Iterable[AcceptedInput]) -> None:
    """Raise SourceFailed where rules leave out all listings of a first build.

    Documents are no lists of listings: all that they describe may be free, or without a price.
    """
    with suppress(SnapshotUnavailable):
        read_current(options.out)
        return
    lists = [each for each in accepted if each.kind in {None, *LISTS}]
    left_out = [each for each in lists if each.tally.left_out]
    names = list(dict.fromkeys(each.input.source_name for each in left_out))
    if options.accept.isdisjoint({*names, *(each.input.name for each in left_out)}) and names:
        reasons = "".join(
            f"\n  {each.input.name}: left out: {count:,} × {rule}"
            for each in left_out
            for rule, count in each.tally.left_out.items()
        )
        records = sum(each.tally.records for each in lists)
        raise SourceFailed(
            f"0 of {records:,} records would be published, by a first build; change the rules that "
            f"leave them out, or if that is right, --accept {names[0]} takes it once{reasons}"
        )


def _use_of_listings(overlays: Overlays, catalogue: Catalogue, discovery: Discovery) -> None:
    """Count the profiles of listed resources as used."""
    groups = (entry.group for _, entry in catalogue.entries())
    for _, listing in chain.from_iterable(map(discovery.listings, groups)):
        overlays.describe_url(listing.endpoint.url)


class Assembler:
    """Makes services of inputs; `assemble` has the stages in order.

    known: the source records that earlier builds read, and those that this one adds
    """

    def __init__(self, context: BuildContext, served: DecisionTable) -> None:
        self._context, self._findings = context, context.findings
        self._decisions = Decisions(served)
        with context.progress.stage("read what is kept"):
            self.known = open_known_records(context.reuse, context.options.policy, context.staging)

    @contextmanager
    def assemble(self, inputs: Inputs) -> Iterator[Assembled]:
        """Yield the services; the tables of payments are written to the snapshot."""
        staging, options, reuse, findings, progress, pool, now = self._context
        findings.notes += inputs.notes
        overlays = read_overlays(each.path for each in inputs.overlays)
        denied = (*options.policy.deny, *overlays.denials)
        rules = Rules(options.policy, Denials(denied), now)
        catalogue = Catalogue(staging, reuse.records, options.policy.max_price)
        normaliser = RecordNormaliser(self.known, pool)
        readings = Readings(self.known.facts, rules)
        discovery = Discovery(Spool(staging), readings, self._decisions)
        intake = Intake(options, rules, catalogue, discovery, normaliser, findings, now)
        self._read(inputs, intake)
        with progress.stage("merge"):
            discovery.merge()
            join_pointers(discovery)
            held = set(_taken_down(denied))
            if any(each.state is State.SKIPPED for each in findings.tallies):
                held |= self._decisions.served_ids
            describe = partial(normaliser.services, discovery, policy=rules.policy)
            catalogue.identify(discovery, self._decisions, held, describe, findings)
            drop_pointers(discovery)
            self._report_merged(discovery)
        with open_payments(
            staging,
            payment_inputs(inputs.payments),
            findings,
            now,
            progress,
            jobs=pool.jobs,
            memory=pool.memory,
            stablecoins=rules.stablecoins,
        ) as payments:
            count = write_ecosystem(self._context.built, payments)
            for tally in findings.tallies[len(inputs.sources) :]:
                findings.check(tally, options.max_rejects)
            findings.flush()
            totals = self._amend(catalogue, discovery, overlays, rules.denials, payments)
        probed = self._probe(inputs.probes, catalogue, discovery, rules)
        listing = catalogue.order()
        if not listing:
            _check_first(options, intake.accepted)
        write_demand(self._context.built, totals, catalogue.demand(listing))
        until = rules.holds_until
        holds_until = None if until is None else EPOCH + until * MICROSECOND
        if any(each.state is not State.CURRENT or each.find(FUTURE) for each in findings.tallies):
            holds_until = now
        sources = findings.tallies[: len(inputs.sources)]
        if any(each.state is State.SKIPPED for each in sources):
            self._decisions.keep()
        yield Assembled(
            listing=listing,
            catalogue=catalogue,
            discovery=discovery,
            probed=probed,
            accepted=intake.accepted,
            rules=rules.decided,
            denials=rules.denials.hashes(),
            reused=normaliser.reused,
            decisions=self._decisions,
            overlays=overlays,
            payments=count,
            holds_until=holds_until,
        )

    def _read(self, inputs: Inputs, intake: Intake) -> None:
        sizes = [None if each.is_compressed else each.size for each in inputs.sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        with self._context.progress.stage("read", total, in_bytes=True) as reading:
            intake.read(inputs.sources, reading)

    def _probe(
        self, inputs: list[Input], catalogue: Catalogue, discovery: Discovery, rules: Rules
    ) -> ProbedCatalogue:
        """Read what probers saw of the endpoints."""
        if not inputs:
            return ProbedCatalogue()
        context = self._context
        with context.progress.stage("read the probes", in_bytes=True) as reading:
            probed = probe_catalogue(
                inputs,
                catalogue,
                discovery,
                rules,
                self._findings,
                spool=context.staging / "probes",
                now=context.now,
                max_rejects=context.options.max_rejects,
                progress=reading,
            )
        self._findings.flush()
        return probed

    def _amend(
        self,
        catalogue: Catalogue,
        discovery: Discovery,
        overlays: Overlays,
        denials: Denials,
        payments: DuckDBPyConnection | None,
    ) -> DemandInputs:
        """Remove services, fill in usage where the records have none, and apply the overlays.

        Returns the totals of the payments that were credited.
        """
        for service_id, entry in [*catalogue.entries()]:
            if denial := denials.find(id=service_id, domain=entry.domain):
                catalogue.remove(service_id, denial, self._findings)
                self._report_removed(discovery, entry.group, denial)
        ids, totals = catalogue.ids, DemandInputs()
        demands: Iterator[ServiceDemand | None] = iter(())
        if payments is None:
            self._decisions.keep_claims()
        else:
            claims = self._claims(catalogue, discovery)
            credited = count_credits(payments, claims, self._decisions)
            demands, totals = credited.demand, credited.inputs
            if credited.shared:
                self._findings.notes.append(
                    f"{credited.shared:,} payments of 30 days fit several services, and are "
                    f"credited to none; {credited.credited:,} are credited"
                )
        domains = [entry.domain for _, entry in catalogue.entries()]
        for service_id, domain in zip(ids, domains, strict=True):
            demand, overlay = next(demands, None), overlays.take(service_id, domain)
            if demand is not None or overlay is not None:
                (text,) = catalogue.texts([service_id])
                filled = text if demand is None else demand.fill_usage(text)
                counted = None if demand is None else demand.describe(text)
                catalogue.amend(service_id, filled, counted, overlay, self.known)
            profile = None if overlay is None else overlay.profile
            if profile or overlays.has_urls:
                (text,) = catalogue.texts([service_id])
                catalogue.annotate(service_id, profile, overlays.describe(text))
        if overlays.has_urls:
            _use_of_listings(overlays, catalogue, discovery)
        self._findings.unused_overlays += overlays.unused(denials.counts)
        self._findings.unused_denials += denials.unused(self._context.options.policy.deny)
        return totals

    def _claims(self, catalogue: Catalogue, discovery: Discovery) -> Iterator[list[Claim]]:
        """Yield the claims of each service: of its own record, and of its listings."""
        for service_id, entry in catalogue.entries():
            (text,) = catalogue.texts([service_id])
            of_service: list[Claim] = []
            owner = entry.domain or service_id
            if not entry.discovered:
                of_service += claims_of_record(text, owner, entry.trust)
            listings = discovery.listings(entry.group)
            trusted = [(place.trust, listing) for place, listing in listings]
            of_service += claims_of_listings(text, owner, trusted)
            yield of_service

    def _report_merged(self, discovery: Discovery) -> None:
        """Report resources that others replace, and sources that contradict each other."""
        for dropped in discovery.dropped:
            self._withdraw(discovery, dropped.place, dropped.fault)
        for conflict in sorted(self._decisions.conflicts):
            self._findings.note_conflict(conflict)
        for place, notice in discovery.remarks:
            tally, outline = self._findings.tallies[place.source], discovery.outline(place)
            subject = subject_of(outline)
            self._findings.note(tally, place.position, outline.identity, notice, subject)

    def _report_removed(self, discovery: Discovery, group: int, denial: Denial) -> None:
        """Count the resources of a service that was taken down."""
        fault = TakenDown("$.resource", denial, "belongs to a service that is taken down")
        for place in discovery.groups[group]:
            for each in (place, *place.others):
                self._withdraw(discovery, each, fault)

    def _withdraw(self, discovery: Discovery, place: Place, fault: LeftOut) -> None:
        tally, outline = self._findings.tallies[place.source], discovery.outline(place)
        self._findings.withdraw(tally, place.position, outline.identity, fault, subject_of(outline))
