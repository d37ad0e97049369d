"""Derived ids: valid, unique, and kept by the domain that had them."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.catalogue.derived_ids import Identity, can_be_id, derive_ids, plain_id
from indexer.decisions import FILE, Decisions, DecisionTable
from service.schema.values import ID_PATTERN

HOSTS = ("a.b.example", "a-b.example", "a.b-example", "a-b-example", "c.example", "c.example:81")

hosts = st.sampled_from(HOSTS)
tables = st.dictionaries(hosts.map(plain_id), hosts).map(
    lambda table: {key: host for key, host in table.items() if plain_id(host) == key}
)
derived = st.lists(
    st.tuples(hosts, st.integers(0, 2)), max_size=6, unique_by=lambda each: each[0]
).map(lambda pairs: [Identity(None, host, trust) for host, trust in pairs])
given_ones = st.lists(
    st.builds(
        Identity,
        st.sampled_from(["a-b-example", "c-example", "own"]),
        st.sampled_from([*HOSTS, ""]),
        st.integers(0, 2),
    ),
    max_size=2,
    unique_by=lambda each: each.given,
)
rests = st.lists(
    st.builds(Identity, st.none(), hosts, st.integers(0, 2), is_rest=st.just(True)),
    max_size=3,
    unique_by=lambda each: each.domain,
)


def served(table: dict[str, str]) -> Decisions:
    return Decisions(DecisionTable(ids=table))


def decided(decisions: Decisions, folder: Path) -> dict[str, str]:
    """Return the domains of the plain ids that were decided."""
    decisions.write(folder)
    ids: dict[str, str] = json.loads((folder / FILE).read_bytes())["ids"]
    return ids


def ids_by_domain(services: list[Identity], decisions: Decisions) -> dict[str, str]:
    ids = derive_ids(services, decisions)
    return {each.domain: each_id for each, each_id in zip(services, ids, strict=True)}


@given(derived, given_ones, rests, tables)
def test_ids_are_valid_and_only_equal_for_one_service(
    services: list[Identity],
    own: list[Identity],
    others: list[Identity],
    table: dict[str, str],
) -> None:
    everything = [*own, *services, *others]
    ids = derive_ids(everything, served(table))
    assert all(re.search(ID_PATTERN, each) for each in ids)
    assert ids[: len(own)] == [each.given for each in own]
    rest_ids = ids[len(own) + len(services) :]
    service_ids = ids[len(own) : len(own) + len(services)]
    assert len({*service_ids}) == len(service_ids)
    assert len({*rest_ids}) == len(rest_ids)
    assert not {*rest_ids} & {*ids[: len(own) + len(services)]}
    for each, service_id in zip(services, service_ids, strict=True):
        shared = [mine for mine in own if mine.given == service_id]
        assert all(mine.domain in {"", each.domain} for mine in shared)


@given(derived, derived, tables)
def test_a_domain_of_the_served_snapshot_keeps_its_plain_id_whatever_neighbours_are_added(
    services: list[Identity], neighbours: list[Identity], table: dict[str, str]
) -> None:
    present = {each.domain for each in services}
    more = [each for each in neighbours if each.domain not in present]
    ids = ids_by_domain([*more, *services], served(table))
    for plain, host in table.items():
        if host in present:
            assert ids[host] == plain


@given(derived, st.data(), tables)
def test_the_order_of_less_trusted_services_changes_no_id_of_a_more_trusted_one(
    services: list[Identity], data: st.DataObject, table: dict[str, str]
) -> None:
    trusted = [each for each in services if each.trust == 2]
    others = [each for each in services if each.trust < 2]
    mixed = [*data.draw(st.permutations(others)), *trusted]
    ids, alone = ids_by_domain(mixed, served(table)), ids_by_domain(trusted, served(table))
    owners = {*table.values()} & {each.domain for each in others}
    for host, service_id in alone.items():
        if not any(plain_id(owner) == plain_id(host) for owner in owners):
            assert ids[host] == service_id


@given(derived, st.data())
def test_a_build_that_keeps_to_its_own_ids_repeats_them_in_any_order(
    services: list[Identity], data: st.DataObject
) -> None:
    decisions = Decisions()
    ids = ids_by_domain(services, decisions)
    table = {key: host for host, key in ids.items()}
    shuffled = data.draw(st.permutations(services))
    assert ids_by_domain(shuffled, served(table)) == ids


@given(derived, rests)
def test_ids_that_nobody_may_take_over_stay_with_the_services_that_had_them(
    services: list[Identity], others: list[Identity]
) -> None:
    services = services + others
    ids = derive_ids(services, Decisions())
    table = {key: each.domain for each, key in zip(services, ids, strict=True)}
    assert derive_ids(services, served(table), table.keys()) == ids


def test_without_a_served_snapshot_the_more_trusted_then_the_first_has_the_plain_id() -> None:
    services = [Identity(None, host, trust) for host, trust in zip(HOSTS, (0, 1, 1), strict=False)]
    ids = derive_ids(services, Decisions())
    assert ids[1] == "a-b-example"
    assert all(each.startswith("a-b-example-") for each in (ids[0], ids[2]))


def test_a_stated_id_is_that_of_the_most_trusted_service_in_any_order() -> None:
    services = [
        Identity(None, "a.example", 0),
        Identity("a-example", "a.example", 0),
        Identity("a-example", "b.example", 1),
    ]
    for order in permutations(services):
        (derived, *_) = derive_ids(sorted(order, key=lambda each: bool(each.given)), served({}))
        assert derived.startswith("a-example-")


def test_a_stated_plain_id_is_decided_for_its_most_trusted_service_in_any_order(
    tmp_path: Path,
) -> None:
    services = [
        Identity("a-b-example", "a.b.example", 0),
        Identity("a-b-example", "a-b.example", 1),
    ]
    for order in permutations(services):
        decisions = Decisions()
        derive_ids(order, decisions)
        assert decided(decisions, tmp_path) == {"a-b-example": "a-b.example"}


@pytest.mark.parametrize(
    ("first", "second", "owner"),
    [
        (("a.b.example", 0, 0), ("a-b.example", 0, 0), "a.b.example"),
        (("a.b.example", 0, 0), ("a-b.example", 0, 1), "a-b.example"),
        (("", 1, 0), ("a-b.example", 0, 1), None),
    ],
    ids=["one source", "equal sources", "no domain"],
)
def test_a_stated_plain_id_is_decided_for_the_record_that_has_it(
    first: tuple[str, int, int], second: tuple[str, int, int], owner: str | None, tmp_path: Path
) -> None:
    decisions = Decisions()
    derive_ids([Identity("a-b-example", *each) for each in (first, second)], decisions)
    assert decided(decisions, tmp_path) == ({"a-b-example": owner} if owner else {})


def test_an_id_that_was_taken_down_keeps_the_domain_that_had_it(tmp_path: Path) -> None:
    for own_id in (None, "a-b-example"):
        decisions = served({"a-b-example": "a.b.example"})
        other = Identity(own_id, "a-b.example", 5)
        (service_id,) = derive_ids([other], decisions, {"a-b-example"})
        assert service_id.startswith("a-b-example-") == (own_id is None)
        assert decided(decisions, tmp_path)["a-b-example"] == "a.b.example"


def test_the_resources_that_a_record_does_not_name_have_the_plain_id_where_it_is_free() -> None:
    rest = Identity(None, "a.example", 0, is_rest=True)
    own = Identity("own", "a.example", 1)
    assert derive_ids([own, rest], Decisions()) == ["own", "a-example"]
    for first in (Identity("a-example", "a.example", 1), Identity(None, "a.example", 1)):
        ids = derive_ids([first, rest], Decisions())
        assert ids[0] == "a-example"
        assert ids[1].startswith("a-example-")


def test_an_id_with_a_hash_that_is_taken_gets_more_of_the_hash() -> None:
    others = [Identity(None, "a.b.example", 1), Identity(None, "a-b.example", 0)]
    _, suffixed = derive_ids(others, Decisions())
    rest = Identity(None, "a-b.example", 0, is_rest=True)
    for taker in (Identity(suffixed, "", 0), rest):
        ids = derive_ids([*others, taker], Decisions())
        assert len({*ids}) == 3
        assert suffixed in ids
        assert all(each.startswith(suffixed) for each in ids[1:])


@pytest.mark.parametrize(
    ("domain", "is_possible"),
    [("a.example", True), ("x" * 300, True), ("a/b", False), ("", False), ("\u2024", False)],
)
def test_a_domain_may_give_no_id(domain: str, is_possible: bool) -> None:
    assert can_be_id(domain) is is_possible
