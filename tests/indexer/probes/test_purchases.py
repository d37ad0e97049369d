from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from indexer.errors import IndexerError
from indexer.intake.findings import Findings
from indexer.intake.sources import find_inputs
from indexer.options import BuildOptions, Kind, SourceOptions
from indexer.probes.verdicts import ALIVE
from service.schema.listings import Fate
from service.schema.probes import Deliveries
from service.schema.values import format_timestamp
from tests.indexer.probes.probing import ENTRY, NOW, URL, Line, ago, quoted, read, source
from tests.support.running import Json
from tests.support.sources.deliveries import Observer

PAYEE = "0xAbC"
VET, AUDIT, STRANGER = Observer(1), Observer(2), Observer(3)
NAMED = (VET.address, AUDIT.address)
WEEK = NOW - timedelta(days=7)


def bought(number: int = 1, by: Observer = VET, **members: Any) -> Json:
    """Return a record of a purchase of URL."""
    return by.buy(URL, PAYEE, WEEK + timedelta(minutes=number), number, **members)


def count(
    folder: Path,
    records: Sequence[Line | bytes],
    findings: Findings | None = None,
    observers: Sequence[str] = NAMED,
    entry: Json = ENTRY,
) -> Deliveries | None:
    """Return the purchases of URL that count."""
    inputs = [source(folder / "p.jsonl", records, observers=observers)]
    probed = read(inputs, listed=[(URL, "GET", [entry])], findings=findings)
    return (probed.facts[0].deliveries or None) if 0 in probed.facts else None


def test_purchases_are_counted_with_deliveries_date_and_observers(tmp_path: Path) -> None:
    verdicts = ("NOT_DELIVERED", "MISMATCH", "UNCLEAR", "DELIVERED")
    records = [
        *(bought(number, verdict={"code": code}) for number, code in enumerate(verdicts)),
        bought(9, by=AUDIT),
    ]
    last = format_timestamp(WEEK + timedelta(minutes=9))
    assert count(tmp_path, records) == Deliveries(5, 2, last, 2)


def test_an_observer_is_known_by_its_address_in_any_case(tmp_path: Path) -> None:
    for address in (VET.address.lower(), "0x" + VET.address[2:].upper()):
        assert count(tmp_path, [bought()], observers=[address]) is not None


def test_a_payee_is_compared_as_listings_spell_addresses(tmp_path: Path) -> None:
    of_solana = VET.buy(URL, "SoLPayee", WEEK, payment={"network": "solana:5eykt4UsFv8P8NJdTREpY1"})
    assert count(tmp_path, [VET.buy(URL, "0xABC", WEEK)]) is not None
    assert count(tmp_path, [of_solana], entry=ENTRY | {"payTo": "SoLPayee"}) is not None
    assert count(tmp_path, [of_solana], entry=ENTRY | {"payTo": "solpayee"}) is None


def test_payee_method_and_url_must_all_be_listed(tmp_path: Path) -> None:
    findings = Findings(None)
    records = [
        VET.buy(URL, "0xMoved", WEEK, 1),
        bought(2, request={"method": "POST"}),
        bought(3, request={"method": None}),
        VET.buy(f"{URL}/other", PAYEE, WEEK, 4),
    ]
    assert count(tmp_path, records, findings) is None
    (tally,) = findings.tallies
    assert (tally.records, tally.published, tally.malformed) == (4, 0, 0)
    assert tally.left_out == {
        "purchases whose payee is not listed": 1,
        "observations of URLs that are not listed": 3,
    }


def test_a_record_without_a_method_is_of_endpoints_that_declare_none(tmp_path: Path) -> None:
    inputs = [source(tmp_path / "p", [bought(request={"method": None})], observers=NAMED)]
    assert read(inputs, listed=[(URL, "", [ENTRY])]).facts[0].deliveries is not UNSET


def test_unknown_observers_count_nothing_with_and_without_known_ones(tmp_path: Path) -> None:
    for observers in (NAMED, ()):
        findings = Findings(None)
        assert count(tmp_path, [bought(by=STRANGER)], findings, observers) is None
        assert findings.tallies[0].left_out == {
            "purchases of observers that the source does not name": 1
        }


def test_a_stranger_cannot_sign_for_an_observer(tmp_path: Path) -> None:
    record = bought()
    forged = STRANGER.sign(record | {"verdict": record["verdict"] | {"code": "MISMATCH"}})
    findings = Findings(None)
    assert count(tmp_path, [forged], findings) is None
    assert findings.tallies[0].malformed == 1


def test_a_record_in_the_future_counts_nothing_until_then(tmp_path: Path) -> None:
    late = VET.buy(URL, PAYEE, NOW + timedelta(hours=2))
    findings = Findings(None)
    assert count(tmp_path, [late], findings) is None
    assert findings.tallies[0].left_out == {"observations in the future": 1}
    assert count(tmp_path, [VET.buy(URL, PAYEE, NOW + timedelta(minutes=59))]) is not None


def test_malformed_records_are_found_with_their_line_and_path(tmp_path: Path) -> None:
    findings = Findings(None)
    records: list[Any] = [
        bought(verdict={"code": "GOOD"}),
        bought() | {"version": 1},
        bought() | {"payment": []},
        bought() | {"issuedAt": -1},
        bought() | {"resourceUrl": "no url"},
        bought() | {"signature": None},
        bought() | {"signature": {"format": "eip712", "signature": "0x12"}},
        b'{"type":"x402-observation"',
    ]
    assert count(tmp_path, records, findings) is None
    (tally,) = findings.tallies
    assert tally.malformed == len(records)
    places = [str(each) for each in findings.examples(tally, Fate.REJECTED)]
    expected = (
        "1: $.verdict.code: Invalid enum value 'GOOD'",
        "2: $.version: ",
        "3: $.payment.network: ",
        "4: $.issuedAt: ",
        "5: $.resourceUrl: ",
    )
    for place, start in zip(places, expected, strict=False):
        assert place.startswith(f"p.jsonl:{start}")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a record that are no containers."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in leaves(value[key], (*path, key))]
    if isinstance(value, list):
        return [leaf for at, each in enumerate(value) for leaf in leaves(each, (*path, at))]
    return [path]


@pytest.fixture(scope="module")
def sample() -> Json:
    """A signed record."""
    return bought(response={"responseHash": "0x12", "responseHashAlg": "sha256"})


def signed_members(record: Json) -> Json:
    return {name: each for name, each in record.items() if name not in {"anchor", "corrections"}}


@given(data=st.data())
def test_any_other_value_of_a_signed_field_counts_nothing(
    sample: Json, data: st.DataObject
) -> None:
    changed = copy.deepcopy(sample)
    places = [each for each in leaves(signed_members(sample)) if each != ("signature", "format")]
    *parents, name = place = data.draw(st.sampled_from(places))
    holder = changed
    for key in parents:
        holder = holder[key]
    value = holder[name]
    if isinstance(value, str) and value and place[0] != "signature":
        at = data.draw(st.integers(0, len(value) - 1))
        holder[name] = value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
    else:
        holder[name] = data.draw(st.sampled_from([1, 2, 1.25, "x", None, True]))
    with TemporaryDirectory() as folder:
        counted = count(Path(folder), [changed])
    assert (counted is None) == (msgspec.json.encode(changed) != msgspec.json.encode(sample))


@given(data=st.data(), bit=st.integers(0, 7))
def test_a_flipped_bit_counts_nothing_unless_it_is_of_an_unsigned_member(
    sample: Json, data: st.DataObject, bit: int
) -> None:
    text = bytearray(msgspec.json.encode(sample))
    text[data.draw(st.integers(0, len(text) - 1))] ^= 1 << bit
    stranger = bought(2, by=STRANGER)  # in the first line: a file that begins with `[` is a list
    with TemporaryDirectory() as folder:
        counted = count(Path(folder), [stranger, bytes(text)])
    if counted is not None:
        read_again = json.loads(text) | {"signature": sample["signature"]}
        assert signed_members(read_again) == signed_members(sample)


def test_what_is_added_after_signing_changes_nothing(tmp_path: Path) -> None:
    anchored = bought() | {"anchor": {"tx": "0x1"}, "corrections": [{"kind": "seller-note"}]}
    assert count(tmp_path, [anchored]) == count(tmp_path, [bought()])


def test_of_records_with_one_id_or_one_payment_the_newest_counts(tmp_path: Path) -> None:
    first, moved = bought(1), bought(3, id="obs_000001", verdict={"code": "UNCLEAR"})
    again = bought(2, by=AUDIT, payment=first["payment"], verdict={"code": "MISMATCH"})
    last = format_timestamp(WEEK + timedelta(minutes=3))
    assert count(tmp_path, [first, first]) == count(tmp_path, [first])
    assert count(tmp_path, [first, moved]) == Deliveries(1, 0, last, 1)
    last = format_timestamp(WEEK + timedelta(minutes=2))
    assert count(tmp_path, [first, again]) == Deliveries(1, 0, last, 1)
    spelt = bought(2, by=AUDIT, payment=first["payment"] | {"network": "base"})
    assert count(tmp_path, [first, spelt]) == Deliveries(1, 1, last, 1)


purchases = st.tuples(
    st.integers(1, 4),  # id
    st.integers(1, 4),  # payment
    st.integers(0, 3),  # hours
    st.sampled_from(["DELIVERED", "UNCLEAR"]),
    st.booleans(),  # observer
)


@given(drawn=st.lists(purchases, max_size=7), data=st.data())
def test_counts_are_those_of_a_slow_reference_in_any_order(
    drawn: list[tuple[int, int, int, str, bool]], data: st.DataObject
) -> None:
    records = [
        (VET if first else AUDIT).buy(
            URL,
            PAYEE,
            WEEK + timedelta(hours=hours),
            number,
            payment={"transaction": f"0x{payment}"},
            verdict={"code": code},
        )
        for number, payment, hours, code, first in drawn
    ]
    shuffled = data.draw(st.permutations(records))
    cut = data.draw(st.integers(0, len(records)))
    with TemporaryDirectory() as name:
        folder = Path(name)
        parts = [
            source(folder / str(number), [*part, quoted(ago(days=1))], observers=NAMED)
            for number, part in enumerate((shuffled[:cut], shuffled[cut:]))
        ]
        found, reversed_ = read(parts), read(parts[::-1])
    assert found.alive(0) == ALIVE  # lines of a prober stand beside records
    assert found.facts[0].deliveries == reversed_.facts[0].deliveries
    deliveries = found.facts[0].deliveries or None
    assert (deliveries and (deliveries.purchases, deliveries.observers)) == reference(records)


def reference(records: list[Json]) -> tuple[int, int] | None:
    """Return how many purchases count, and of how many observers, as documents state it."""

    def newest(key: Any, ordered: list[Json]) -> list[Json]:
        kept: dict[Any, Json] = {}
        for each in ordered:
            kept.setdefault(key(each), each)
        return [*kept.values()]

    ordered = sorted(records, key=lambda each: (-each["issuedAt"], digest_of(each)))
    once = newest(lambda each: (each["observer"]["address"], each["id"]), ordered)
    once = newest(lambda each: each["payment"]["transaction"], once)
    return (len(once), len({each["observer"]["address"] for each in once})) if once else None


def digest_of(record: Json) -> str:
    from indexer.probes.purchases import PurchaseReader  # noqa: PLC0415  # as the product orders

    found = PurchaseReader(NAMED).read(msgspec.json.encode(record))
    return str(found.bought[3])


@pytest.mark.parametrize("text", ["", "\n", "[]"])
def test_a_file_without_records_counts_nothing(text: str, tmp_path: Path) -> None:
    findings = Findings(None)
    (tmp_path / "p").write_text(text)
    options = SourceOptions(
        name="vet", path=str(tmp_path / "p"), kind=Kind.PROBES, trust=1, observers=NAMED
    )
    inputs = find_inputs(BuildOptions(sources=(options,))).probes
    assert read(inputs, findings=findings).facts == {}
    assert findings.tallies[0].records == 0


def test_a_folder_of_documents_is_one_source_with_a_place_for_each_fault(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    for number in range(1, 4):
        (folder / f"{number}.json").write_text(json.dumps(bought(number), indent=2))
    (folder / "lines.jsonl").write_text("\n".join(json.dumps(bought(n)) for n in (4, 5)))
    (folder / "array.json").write_text(json.dumps([bought(6), bought(7)]))
    damaged = bought(8, verdict={"code": "GOOD"})
    (folder / "z.json").write_text(json.dumps(damaged, indent=2))
    options = SourceOptions(
        name="vet", path=str(folder), kind=Kind.PROBES, trust=1, observers=(VET.address,)
    )
    inputs = find_inputs(BuildOptions(sources=(options,))).probes
    findings = Findings(None)
    deliveries = read(inputs, findings=findings).facts[0].deliveries
    assert deliveries
    assert deliveries.purchases == 7
    (tally,) = findings.tallies
    assert (tally.source, tally.records, tally.published, tally.malformed) == ("vet", 8, 7, 1)
    (place,) = map(str, findings.examples(tally, Fate.REJECTED))
    assert place.startswith(f"vet:{folder}/z.json:line 1: $.verdict.code: ")


def test_missing_libraries_are_named_where_observers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "eth_account", None)
    with pytest.raises(IndexerError, match=r"`observers` needs the extra `deliveries`; .*pip"):
        count(tmp_path, [])
    assert count(tmp_path, [bought()], observers=()) is None


def test_libraries_of_signatures_leave_the_recursion_limit_as_it_is() -> None:
    program = (
        "import sys; from indexer.probes.purchases import PurchaseReader; "
        "limit = sys.getrecursionlimit(); PurchaseReader(['0xa']); "
        "assert 'eth_account' in sys.modules and sys.getrecursionlimit() == limit"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_date_of_a_record_is_in_seconds(tmp_path: Path) -> None:
    found = count(tmp_path, [VET.buy(URL, PAYEE, datetime(1970, 1, 2, tzinfo=UTC))])
    assert found is not None
    assert found.last == "1970-01-02T00:00:00.000Z"
