"""Identity: the ids of services, and which items a record names."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from itertools import product

from indexer.catalogue.catalogue import Catalogue, ListedService
from indexer.catalogue.derived_ids import Identity, ascii_domain, derive_ids, plain_id
from indexer.catalogue.merge import OUTRANKED as OUTRANKED_URL
from indexer.catalogue.merge import PATH, Merger, trusts_of
from indexer.catalogue.services import describe_services
from indexer.decisions import Decisions
from indexer.endpoints import EndpointPayees, decode_endpoints, read_endpoints, split_methods
from indexer.errors import LeftOut
from indexer.intake.fates import MAX_URLS, find_address, read_subject
from indexer.intake.findings import Findings, Notice
from indexer.intake.rules import fold_address, fold_host
from indexer.processes.pool import Pool
from service.urls import find_url

OUTRANKED = "listed by a more trusted source"
HIDDEN = "hidden by a catalogue record"
REPLACED = "replaced by a later source"
DUPLICATE_ID = "duplicate ids"
SECOND = "second services of hosts"
ADVICE = (
    "{} is a second service of the host of {}, whose record does not name these endpoints; add "
    "them there, or hide them by `hides = true` of its source"
)


class Identifier:
    """Gives every service its id, and a record the items that it names.

    Of the records with one id the most trusted stays, among equals that of the last source, within
    one source the first. A record of a host that a more trusted source lists is left out. The
    items of a host that no record names become a service, or several with paths, unless a source
    hides them.
    """

    def __init__(
        self, catalogue: Catalogue, merger: Merger, decisions: Decisions, findings: Findings
    ) -> None:
        self._catalogue, self._table = catalogue, catalogue.table
        self._merger, self._decisions, self._findings = merger, decisions, findings
        self._trusts = self._table.domains()
        self._url_trusts: dict[str, dict[str, int]] = {}
        self._domains: dict[int, list[str]] = {}
        """The domains of each record, by its number, whose items it may name."""
        self._by_id: dict[str, str] = {}
        for domain in self._trusts:
            plain = plain_id(domain)
            if plain not in self._by_id or decisions.owner_of(plain) == domain:
                self._by_id[plain] = domain

    def identify(self, pool: Pool, taken_down: Collection[str], limit: int) -> None:
        """Enter the services into the catalogue; discovered ones have `limit` endpoints at most."""
        highest = [each for each in self._catalogue.records if self._is_highest(each)]
        records = self._drop_rivals(highest)
        paths = self._table.paths()
        keys = {
            f"{domain}{path}": trust
            for domain, trust in self._trusts.items()
            for path in ["", *sorted(paths.get(domain, ()))]
        }
        identities = [
            Identity(each.given, each.domain, each.trust, each.source) for each in records
        ]
        identities += [Identity(None, key, trust, is_rest=True) for key, trust in keys.items()]
        ids = derive_ids(identities, self._decisions, taken_down)
        for service, service_id in zip(records, ids, strict=False):
            service.id = service_id
            self._enter(service)
        self._claim_items()
        rests = dict(zip(keys, ids[len(records) :], strict=True))
        for group, found in describe_services(
            pool, self._table, paths, rests, limit, self._catalogue.known
        ):
            newest = group.newest
            service = self._catalogue.add(
                found.record, newest.source, newest.position, found.outputs
            )
            service.id, service.discovered = rests[group.key], True
            service.trust = max(row.trust for row in group.rows)
            places = zip(group.rows, found.in_record, strict=True)
            self._table.assign(
                service.number, [row._replace(in_record=kept) for row, kept in places]
            )
            self._catalogue.services[service.id] = service

    def note_second_services(self) -> None:
        """Note each discovered service of a host that has a catalogue record, too."""
        services = self._catalogue.services.values()
        records = {
            domain: each.id for each in services for domain in self._domains.get(each.number, ())
        }
        for service in services:
            if service.discovered and (other := records.get(service.domain)):
                tally = self._findings.tallies[service.source]
                notice = Notice(SECOND, "$.resource", ADVICE.format(service.id, other))
                described = read_subject(self._catalogue.text(service))
                rows = (row for row, _ in self._table.of_service(service.number))
                given = filter(None, map(find_address, dict.fromkeys(row.given for row in rows)))
                addresses = dict.fromkeys((*described.addresses, *given))
                subject = described._replace(addresses=tuple(addresses)[:MAX_URLS])
                self._findings.note(tally, service.position, service.id, notice, subject)

    def _is_highest(self, service: ListedService) -> bool:
        """Whether no more trusted source lists what a record names; another is left out."""
        listed = self._outranking(service)
        if listed:
            fault = LeftOut(OUTRANKED, "$.id", f"a more trusted source lists {listed}")
            self._catalogue.leave_out(service, fault, self._findings)
        return not listed

    def _outranking(self, service: ListedService) -> str:
        """Return the domain or a URL of a record that a more trusted source lists, or nothing."""
        if service.trust >= max(self._trusts.values(), default=service.trust):
            return ""
        domain = self._domain_of(service)
        if domain and self._trusts[domain] > service.trust:
            return domain
        urls = {url for url, *_ in read_endpoints(self._catalogue.text(service))}
        domains = {parsed.domain for url in urls if (parsed := find_url(url))}
        for each in sorted(domains & self._trusts.keys()):
            if each not in self._url_trusts:
                self._url_trusts[each] = trusts_of(self._table.rows(each))
            trusts = self._url_trusts[each]
            if above := [url for url in urls if trusts.get(url, service.trust) > service.trust]:
                return min(above)
        return ""

    def _drop_rivals(self, records: list[ListedService]) -> list[ListedService]:
        """Leave out the endpoints whose URLs the most trusted records name with other payees.

        Returns the records, but for those that have no endpoint left.
        """
        lowest, *others = sorted({each.trust for each in records}) or [0]
        if not others:
            return records
        payees: dict[str, tuple[int, set[str]]] = {}
        kept: dict[int, ListedService] = {}
        for service in sorted(records, key=lambda each: -each.trust):
            rivals: dict[int, LeftOut] = {}
            for number, endpoint in enumerate(decode_endpoints(self._catalogue.text(service))):
                parsed, payee = find_url(endpoint.url), fold_address(endpoint.payee)
                if parsed is None or not payee:
                    continue
                trust, named = payees.get(parsed.identity, (service.trust, set()))
                if trust > service.trust and payee not in named:
                    path = f"$.endpoints[{number}].payTo"
                    rivals[number] = LeftOut(OUTRANKED_URL.rule, path, OUTRANKED_URL.reason)
                elif trust == service.trust > lowest:
                    named.add(payee)
                    payees.setdefault(parsed.identity, (trust, named))
            if not rivals:
                kept[service.number] = service
            elif len(rivals) < service.endpoints:
                kept[service.number] = self._catalogue.strip(service, rivals, self._findings)
            else:
                self._catalogue.leave_out(service, rivals[0], self._findings)
        return [kept[each.number] for each in records if each.number in kept]

    def _domain_of(self, service: ListedService) -> str:
        """Return the domain whose items a record may name, or an empty string."""
        if not service.domain:
            return self._by_id.get(service.given or "", "")
        with suppress(ValueError):
            if (domain := ascii_domain(service.domain)) in self._trusts:
                return domain
        return ""

    def _domains_of(self, service: ListedService, endpoints: EndpointPayees) -> list[str]:
        """Return the domains whose items a record may name: its own, and hosts of its endpoints.

        Hosts count below the domain of the record, and any where it states none.
        """
        stated = fold_host(service.domain)
        domains = {url.split("/", 3)[2] for url, *_ in endpoints} & self._trusts.keys()
        if stated:
            below = f".{stated}"
            domains = {each for each in domains if each.partition(":")[0].endswith(below)}
        return sorted(domains | {self._domain_of(service)} - {""})

    def _enter(self, service: ListedService) -> None:
        """Make a record the service of its id, unless another one stays."""
        services = self._catalogue.services
        earlier = services.get(service.id)
        if earlier is None:
            services[service.id] = service
            return
        if earlier.source == service.source:
            fault = LeftOut(
                DUPLICATE_ID, "$.id", f"has the id of {earlier.position}, which is kept"
            )
        elif earlier.trust > service.trust:
            fault = LeftOut(OUTRANKED, "$.id", f"a more trusted source has {service.id}")
        else:
            rule = REPLACED if earlier.trust == service.trust else OUTRANKED
            fault = LeftOut(rule, "$.id", f"another source has {service.id}, which is kept")
            del services[service.id]  # the place of the other would depend on the order of sources
            services[service.id], service = service, earlier
        self._catalogue.leave_out(service, fault, self._findings)

    def _claim_items(self) -> None:
        """Give records the items that they name; the most trusted record is the first to do so."""
        if not self._trusts:
            return
        services = self._catalogue.services.values()
        for service in sorted(services, key=lambda service: -service.trust):
            endpoints = read_endpoints(self._catalogue.text(service))
            self._domains[service.number] = self._domains_of(service, endpoints)
            self._claim(service, endpoints)
        hidden: dict[str, int] = {}
        for service in services:
            if self._catalogue.sources[service.source].hides:
                for domain in self._domains[service.number]:
                    if hidden.get(domain, service.trust - 1) < service.trust:
                        hidden[domain] = service.trust
                        self._hide(service, domain)

    def _hide(self, service: ListedService, domain: str) -> None:
        """Leave out the items of a domain that no record names, and none more trusted."""
        reason = f"is none of the endpoints that the record of {service.id} names"
        for row in self._table.rows(domain):
            if row.trust <= service.trust:
                self._merger.drop(row, LeftOut(HIDDEN, PATH, reason))

    def _claim(self, service: ListedService, endpoints: EndpointPayees) -> None:
        """Give a record the items that are any of its endpoints.

        An endpoint without a tool is every tool of its URL. An item less trusted than the record is
        left out if the record names another payee at its URL, or its URL without its method.
        """
        domains = frozenset(self._domains[service.number])
        places = {url: url.split("/", 3)[2] for url, *_ in endpoints}
        rows = {
            row.number: row
            for url, domain in places.items()
            if domain in domains
            for row in self._table.rows_at(domain, url)
        }
        claimed = []
        for row in rows.values():
            spellings = {row.given, row.url}
            methods, paid = split_methods(row.method), row.paid
            tools = (row.tool, "") if row.tool else (None,)
            listed = set(product(spellings, methods, (None,))) & endpoints.keys()
            named = set(product(spellings, methods, tools)) & endpoints.keys()
            payees = [endpoints[each] for each in named or listed if endpoints[each]]
            is_other = bool(paid and payees) and all(each.isdisjoint(paid) for each in payees)
            if row.trust < service.trust and (is_other or not listed):
                self._merger.drop(row, OUTRANKED_URL)
            elif named:
                claimed.append(row)
        self._table.assign(service.number, claimed)
