"""Services of discovered resources: their texts, and the bounds of their records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.catalogue.services import MAX_ENDPOINTS_BYTES, describe_group, find_groups
from indexer.catalogue.table import encode_resource
from indexer.options import Policy
from indexer.resources.x402 import read_resource
from tests.support.running import Json
from tests.support.sources.x402 import Feed, accept, discover, resource

HOST = "https://api.one.example"

Group = Callable[..., Json]


@pytest.fixture
def group() -> Group:
    """Return a function that returns the service of resources of one host."""

    def group(*feeds: Feed) -> Json:
        ((_, service),) = discover(feeds).groups()
        return service

    return group


def at(path: object, payee: str = "0xPay", **fields: object) -> Json:
    return resource(f"{HOST}/{path}", accept(payTo=payee), **fields)


def named(*names: str, payee: str = "0xPay") -> list[Json]:
    """Return resources that pay one address, each with its name, and a category of that name."""
    return [
        at(
            f"{payee}/{number}",
            payee,
            **({"serviceName": name, "metadata": {"category": name}} if name else {}),
        )
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Weather"], "Weather"),
        (["Weather", ""], "Weather"),
        (["Sun", "Rain"], "Rain"),
        (["Weather", "", ""], None),
        (["Weather", "Weather", ""], "Weather"),
        (["Sun", "Weather", "Weather"], "Weather"),
        (["Weather", "Weather", *[""] * 4], "Weather"),
        (["Weather", "Weather", *[""] * 5], None),
        (["Sun", "Rain", "Wind", "Snow"], None),
        (["Rain", *["Sun", "Wind", "Snow", "Hail"], "Rain"], "Rain"),
    ],
)
def test_a_service_has_the_name_and_category_that_a_third_of_its_listings_give(
    names: list[str], expected: str | None, group: Group
) -> None:
    service = group(Feed(named(*names)))
    assert service["name"] == (expected or "One")
    assert service.get("serviceName") == service.get("category") == expected


def test_only_listings_that_pay_the_commonest_payee_name_a_service(group: Group) -> None:
    own = named(*["Weather"] * 3, *[""] * 3, payee="0xOwn")
    spam = [each for n in range(9) for each in named("Spam", payee=f"0x{n}")]
    assert group(Feed([*own, *spam]))["name"] == "Weather"
    assert group(Feed([*named(*[""] * 6, payee="0xOwn"), *spam]))["name"] == "One"
    claims = [each | {"accepts": [accept(payTo="0xother"), accept(payTo="0XOWN")]} for each in spam]
    assert group(Feed([*own, *claims]))["name"] == "Spam"


def test_without_any_payee_all_listings_name_a_service(group: Group) -> None:
    bare = [{"resource": f"{HOST}/{n}", "serviceName": "Weather"} for n in range(3)]
    assert group(Feed(bare))["name"] == "Weather"


def test_a_service_without_descriptions_is_described_by_names_of_endpoints_or_tags(
    group: Group,
) -> None:
    several = group(Feed(named("Sun", "Rain", "Wind", "Snow")))
    assert several["description"] == "Sun; Rain; Wind; Snow"
    assert group(Feed([at("a", tags=["sun", "rain"])]))["description"] == "sun, rain"
    assert group(Feed([at("a")]))["description"] == ""


def test_a_single_description_is_unchanged_and_joined_ones_are_limited(group: Group) -> None:
    assert group(Feed([at("a", description=" x" * 5000)]))["description"] == " x" * 5000
    many = group(Feed([at(f"{n:03}", description=f"Does {n}.") for n in range(500)]))
    assert many["description"].startswith("Does 0; Does 1; ")
    assert len(many["description"]) <= 600


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("word " * 9_000, f"{'word ' * 119}word…"),
        ("x" * 9_000, f"{'x' * 599}…"),
        (f"x {'y' * 9_000}", f"x {'y' * 597}…"),
        ("word " * 120, "word " * 120),
    ],
)
@pytest.mark.parametrize("other", [{}, {"description": "Second"}])
def test_of_several_listings_none_describes_the_service_at_any_length(
    text: str, cut: str, other: Json, group: Group
) -> None:
    first = at("a", description=text, quality={"l30DaysTotalCalls": 9})
    described = group(Feed([first, at("b", **other)]))
    assert described["description"] == cut
    assert described["endpoints"][0]["description"] == text


def group_within(records: list[Json], policy: Policy) -> tuple[list[Json], list[str]]:
    """Return the endpoints of a service, and the URLs of the resources that its record has."""
    found = [read_resource(json.dumps(each).encode()) for each in records]
    members = [(encode_resource(each), 0) for each in found]
    described = describe_group("id", "api.one.example", members, policy.endpoints_per_service)
    in_record = [each.identity for each in compress(found, described.in_record)]
    return json.loads(described.record.text)["endpoints"], in_record


def test_a_record_has_as_many_endpoints_as_the_policy_allows_the_most_called_first() -> None:
    records = [at(n, quality={"l30DaysTotalCalls": n}) for n in range(5)]
    endpoints, in_record = group_within(records, Policy(endpoints_per_service=2))
    assert [each["url"] for each in endpoints] == [f"{HOST}/4", f"{HOST}/3"]
    assert sorted(in_record) == [f"{HOST}/3", f"{HOST}/4"]


def test_the_endpoints_of_a_record_have_at_most_256_kib() -> None:
    records = [at(f"{n:03}", description="x" * 5_000) for n in range(100)]
    endpoints, in_record = group_within(records, Policy())
    size = len(json.dumps(endpoints, separators=(",", ":")))
    assert size <= MAX_ENDPOINTS_BYTES < size + size // len(endpoints)
    assert in_record == [each["url"] for each in endpoints]


def test_an_endpoint_that_does_not_fit_keeps_no_later_one_out_of_the_record() -> None:
    huge = {f"p{number}": 1 for number in range(6_000)}
    info = {"info": {"input": {"type": "http", "method": "GET", "queryParams": huge}}}
    calls = {"l30DaysTotalCalls": 9}
    large = at("large", extensions={"bazaar": info}, quality=calls)
    assert len(read_resource(json.dumps(large).encode()).text) < MAX_ENDPOINTS_BYTES
    _, in_record = group_within([at("a"), large, at("b")], Policy())
    assert in_record == [f"{HOST}/a", f"{HOST}/b"]
    half = "x" * (MAX_ENDPOINTS_BYTES // 2)
    halves = [at(name, description=half, quality=calls) for name in ("half", "other")]
    endpoints, in_record = group_within([at("a"), *halves], Policy())
    assert in_record == [f"{HOST}/a", f"{HOST}/half"]
    assert len(json.dumps(endpoints, separators=(",", ":"))) <= MAX_ENDPOINTS_BYTES


letters = st.text("aB/?", max_size=8)
services = st.lists(letters.map(lambda each: f"/{each.lower()}"), max_size=6, unique=True)


@given(st.lists(letters, max_size=8, unique=True), services)
def test_an_item_belongs_to_the_longest_path_above_its_url_as_brute_force_finds_it(
    urls: list[str], paths: list[str]
) -> None:
    table = discover([Feed([at(each) for each in urls])]).table
    found = {
        row.url: group.key.removeprefix("api.one.example")
        for group in find_groups(table, {"api.one.example": paths})
        for row in group.rows
    }
    for url, path in found.items():
        rest = url.lower().partition("?")[0].removeprefix(HOST)
        above = [each for each in paths if f"{rest}/".startswith(f"{each}/")]
        assert path == max(above, key=len, default="")
    assert len(found) == len({*found}) == len(table.rows("api.one.example"))


def test_items_are_compared_with_no_path_of_other_services() -> None:
    class Counted(list[str]):
        """Counts how many of its elements are looked at."""

        looks = 0

        def __iter__(self) -> Iterator[str]:
            for each in super().__iter__():
                self.looks += 1
                yield each

    paths = Counted(f"/{number}" for number in range(100))
    table = discover([Feed([at(f"{number}/x") for number in range(100)])]).table
    assert len([*find_groups(table, {"api.one.example": paths})]) == 100
    assert paths.looks <= 200
