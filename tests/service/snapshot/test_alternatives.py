"""Who else sells what an endpoint does: sellers, parameters, order, spellings, hostile input."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.schema.values import format_timestamp
from service.snapshot.alternatives import (
    Alternative,
    describe_alternatives,
    find_alternatives,
)
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.intake import CatalogueFolder, source
from tests.support.running import Json, build_snapshot_alone, endpoint, examples, serve, service

TIDES = "Predict the tide of any harbour by moon phase"
SEMANTIC, WORDS_ALONE = {"semantic": True}, {"semantic": False}
FOUND = "/v1/endpoints/alternatives"


def sells(host: str, text: str = TIDES, amount: str = "0.01", **fields: Any) -> Json:
    """Return a service at a host with one endpoint."""
    own = endpoint(amount, network="Base") | {"url": f"https://{host}/v1", "description": text}
    service_id = host.replace(".", "-")
    return service(service_id, name=host, domain=host, endpoints=[own | fields])


def parameter(name: str, group: str = "query", *, required: bool = True) -> Json:
    return {"group": group, "name": name, "type": "string", "required": required}


def found_by(snapshot: Snapshot, url: str) -> list[tuple[str, float]]:
    """Return the hosts of the alternatives of a URL, and how they fit."""
    (ordinal,) = snapshot.endpoints.of_url(url)
    return [
        (snapshot.endpoints.url_of(each.ordinal).split("/")[2], each.fit)
        for each in find_alternatives(snapshot, snapshot.embedded, ordinal)
    ]


def hosts_of(tmp_path: Path, *records: Json, options: dict[str, bool] = SEMANTIC) -> list[str]:
    """Return the hosts of the alternatives of the endpoint of the first service."""
    snapshot = open_snapshot(build_snapshot_alone(tmp_path, records, **options))
    return [host for host, _ in found_by(snapshot, records[0]["endpoints"][0]["url"])]


@pytest.mark.parametrize("options", [SEMANTIC, WORDS_ALONE])
def test_another_seller_of_the_same_is_found_and_one_of_another_function_is_not(
    tmp_path: Path, options: dict[str, bool]
) -> None:
    records = [
        sells("a.example.com"),
        sells("b.example.org", "Any harbour: predict the tide by moon"),
        sells("c.example.net", TIDES.replace("tide", "traffic")),
    ]
    assert hosts_of(tmp_path, *records, options=options) == ["b.example.org"]


def test_subdomains_of_one_registrable_domain_are_one_seller(tmp_path: Path) -> None:
    records = [
        sells("api.sea.co.uk"),
        sells("other.sea.co.uk"),
        sells("api.lake.co.uk"),
        sells("eu.lake.co.uk", amount="0.005"),
        sells("one.vercel.app"),
    ]
    assert hosts_of(tmp_path, *records) == ["eu.lake.co.uk", "one.vercel.app"]


def test_endpoints_that_are_paid_to_one_address_are_of_one_seller(tmp_path: Path) -> None:
    payees = {"b.org": "0xAB", "c.net": "0xcd", "d.io": "0xef"}
    records = [sells(host, payTo=payee) for host, payee in payees.items()]
    assert hosts_of(tmp_path, sells("a.com", payTo="0xab"), *records) == ["c.net", "d.io"]


def test_a_seller_of_many_endpoints_hides_no_other(tmp_path: Path) -> None:
    many = (sells(f"api{number}.b.org") for number in range(70))
    assert hosts_of(tmp_path, sells("a.com"), *many, sells("c.net", f"{TIDES} and year"))[1:] == [
        "c.net"
    ]


@pytest.mark.parametrize(
    ("given_", "needed", "is_found"),
    [
        ([parameter("port_id")], [parameter("portId", "body")], True),
        ([parameter("port")], [parameter("port"), parameter("day", required=False)], True),
        ([parameter("port")], [parameter("port"), parameter("day")], False),
        ([], [parameter("day")], False),
        ([], [], True),
        ([parameter("port")], [], False),
        ([parameter("port", required=False)], [], True),
    ],
)
def test_an_alternative_is_filled_from_the_parameters_of_the_endpoint(
    tmp_path: Path, given_: list[Json], needed: list[Json], *, is_found: bool
) -> None:
    records = [sells("a.com", parameters=given_), sells("b.org", parameters=needed)]
    assert hosts_of(tmp_path, *records) == ["b.org"] * is_found


def test_a_placeholder_that_nobody_describes_is_a_required_parameter(tmp_path: Path) -> None:
    template = sells("b.org", url="https://b.org/v1/{port}")
    assert hosts_of(tmp_path, sells("a.com"), template) == []
    assert hosts_of(tmp_path, sells("a.com", parameters=[parameter("Port")]), template) == ["b.org"]


def test_equal_fits_are_ordered_by_price_and_unknown_ones_and_0_come_last(tmp_path: Path) -> None:
    prices = {"b.org": "0.03", "c.net": "0.002", "d.io": "", "e.dev": "0.5", "g.fm": "0"}
    records = [sells(host, amount=amount) for host, amount in prices.items()]
    shorter = sells("f.app", "Predict the tide of a harbour by moon", "0.001")
    found = hosts_of(tmp_path, sells("a.com"), *records, shorter)
    assert found == ["c.net", "b.org", "e.dev", "d.io", "g.fm", "f.app"]


def test_endpoints_that_probers_found_dead_are_left_out(tmp_path: Path) -> None:
    records = [sells("a.com"), sells("b.org"), sells("c.net")]
    seen = {"url": "https://b.org/v1", "outcome": "unreachable"}
    days = (datetime.now(UTC) - timedelta(days=day) for day in (1, 2, 3))
    dead = [seen | {"observed_at": format_timestamp(day)} for day in days]
    prober = {"name": "nightly", "kind": "probes", "trust": 1, "items": dead}
    catalogue = CatalogueFolder(tmp_path)
    assert catalogue.build(source("records", records), prober) == 0
    snapshot = open_snapshot(catalogue.artifacts)
    assert [host for host, _ in found_by(snapshot, "https://a.com/v1")] == ["c.net"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "Tides", "The 1 and 2 of 3", "🌊", "get get get get", "tide tide tide"),
        *("Access to protected content", "Payment of 0.1 USDC for an API service"),
    ],
)
def test_an_endpoint_whose_text_names_no_function_has_no_alternatives(
    tmp_path: Path, text: str
) -> None:
    assert hosts_of(tmp_path, sells("a.com", text), sells("b.org", text)) == []


names = st.sampled_from(["port", "day", "unit"])
parameters = st.lists(
    st.builds(lambda name, required: parameter(name, required=required), names, st.booleans()),
    max_size=3,
)
words = st.lists(st.sampled_from(TIDES.split()), min_size=3, max_size=9).map(" ".join)
hosts = st.builds(
    "{}.{}.com".format, st.sampled_from(["api", "eu"]), st.sampled_from("abcdefghijklmnop")
)


@settings(max_examples=examples(40))
@given(
    offered=st.lists(
        st.tuples(hosts, words, parameters, st.sampled_from(["0.1", "0.2", ""])),
        min_size=2,
        max_size=24,
        unique_by=lambda each: each[0],
    ),
    options=st.sampled_from([SEMANTIC, WORDS_ALONE]),
)
def test_alternatives_of_any_catalogue_keep_to_their_rules(
    offered: list[tuple[str, str, list[Json], str]], options: dict[str, bool]
) -> None:
    records = [sells(host, text, amount, parameters=own) for host, text, own, amount in offered]
    parameters_of = {host: own for host, _, own, _ in offered}
    with tempfile.TemporaryDirectory() as folder:
        snapshot = open_snapshot(build_snapshot_alone(Path(folder), records, **options))
        for host, _, own, _ in offered:
            (ordinal,) = snapshot.endpoints.of_url(f"https://{host}/v1")
            found = find_alternatives(snapshot, snapshot.embedded, ordinal)
            others = [snapshot.endpoints.url_of(each.ordinal).split("/")[2] for each in found]
            sellers = [other.split(".", 1)[1] for other in others]
            assert len(found) <= 10
            assert len({*sellers, host.split(".", 1)[1]}) == len(sellers) + 1
            order = [(-each.fit, each.usd_price) for each in found]
            assert order == sorted(order)
            assert all(0.5 <= each.fit <= 1 for each in found)
            for other in others:
                needed = {each["name"] for each in parameters_of[other] if each["required"]}
                assert needed <= {each["name"] for each in own}
                assert parameters_of[other] or not any(each["required"] for each in own)


def test_a_url_is_found_in_any_spelling_and_a_method_chooses_among_endpoints(
    tmp_path: Path,
) -> None:
    both = sells("a.com")
    post = both["endpoints"][0] | {"method": "POST", "description": f"{TIDES} for bulk orders"}
    both["endpoints"].append(post)
    bulk = sells("g.com", f"{TIDES} for orders, bulk")
    bulk["endpoints"][0]["method"] = "POST"  # one that reads does not stand in for it
    records = [
        both,
        bulk,
        sells("b.org", f"{TIDES} for bulk orders", parameters=[parameter("port")]),
        sells("c.net", f"{TIDES} for orders, bulk"),
        sells("d.io", "Tell the weather of any town by street", url="https://d.io/v1/{town}"),
    ]
    with serve(build_snapshot_alone(tmp_path, records)) as client:

        def ask(**parameters: str) -> Json:
            response = client.get(FOUND, params=parameters)
            body: Json = response.json()
            return body | {"status": response.status_code}

        found = ask(url="https://a.com/v1")
        assert [each["url"] for each in found["endpoints"]] == ["https://c.net/v1"]
        assert found["endpoints"][0]["service"]["id"] == "c-net"
        assert found["endpoints"][0]["pricing"]["amount"] == "0.01"
        assert (found["total"], found["limit"], len(found["fits"])) == (1, 10, 1)
        nothing = ask(url="https://d.io/v1/{town}")
        assert (nothing["total"], nothing["limit"], nothing["fits"]) == (0, 10, [])
        for url in ("HTTPS://A.COM:443/x/../v1", "https://a.com/%761"):
            assert ask(url=url, method="get") == found
        assert ask(url="https://a.com/v1", method="post")["fits"][0] > found["fits"][0]
        missing = ask(url="https://a.com/v1", method="DELETE")
        assert (missing["status"], missing["error"]["code"]) == (404, "service_not_found")
        assert "search" in missing["error"]["message"]
        assert ask(url="https://nobody.example.com/v1")["status"] == 404
        assert ask(url="https://d.io/v1/Oslo")["status"] == 200
        assert ask(url="no url")["error"]["parameter"] == "url"
        assert ask(url="")["error"]["parameter"] == "url"
        assert ask(url=f"https://a.com/{quote('x' * 10_000)}")["status"] == 400


def test_the_page_of_a_service_says_how_many_others_do_this(tmp_path: Path) -> None:
    records = [sells("a.com"), sells("b.org", amount="0.001"), sells("c.net")]
    with serve(build_snapshot_alone(tmp_path, records)) as client:
        page = client.get("/services/a-com").text
        assert "2 others do this, from 0.001 USD" in page
        assert f"{FOUND}?url=https%3A%2F%2Fa.com%2Fv1&amp;method=GET" in page


def test_one_line_counts_the_others_and_names_the_lowest_known_price() -> None:
    known, unknown = Alternative(1, 1.0, 0.001), Alternative(2, 0.9, float("inf"))
    assert describe_alternatives([]) == ""
    assert describe_alternatives([unknown]) == "1 other does this"
    assert describe_alternatives([unknown, known]) == "2 others do this, from 0.001 USD"


def test_the_same_words_in_another_sense_are_another_function(tmp_path: Path) -> None:
    spoken, days = "Convert written text to spoken audio", "Forecast of rain for the next 7 days"
    names = "Names of fish, boats and ports by names of towns"
    records = [
        sells("a.com", spoken),
        sells("b.org", "Convert spoken audio to written text"),
        sells("c.net", f"{spoken}, but not for free"),
        sells("d.io", f"{spoken} quickly"),
        sells("e.com", days),
        sells("f.org", days.replace("7", "1")),
        sells("g.com", names),
        sells("h.org", names.replace("Names", "Pictures")),
    ]
    with serve(build_snapshot_alone(tmp_path, records)) as client:
        found = {
            name: client.get(FOUND, params={"url": f"https://{name}/v1"}).json()["endpoints"]
            for name in ("a.com", "e.com", "g.com")
        }
    assert [each["url"] for each in found["a.com"]] == ["https://d.io/v1"]
    assert found["e.com"] == found["g.com"] == []
