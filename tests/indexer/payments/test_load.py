"""Payments: which rows count, are rejected, are left out, or are duplicates."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import SourceError
from indexer.options import SourceOptions, Stablecoin
from indexer.resources.assets import Stablecoins, is_test_network
from service.arrays.files import zstd
from service.networks import NETWORK_KEYS, network_key
from tests.support.running import Build, Json, examples, payment, service, write_lines
from tests.support.sources.payments import (
    ANY_REJECTS,
    NOW,
    items,
    load,
    overview,
    row,
    write_csv,
    write_parquet,
    write_rows,
)

DAI = "0x50c5725949a6f0c72e6c4a641f24049a917db0cb"
USDC = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
EURC = "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42"


def test_a_payment_is_served_with_every_field_of_transaction(artifacts: Path, build: Build) -> None:
    whole = payment(
        id="p1",
        log_index=7,
        address="0xAb",
        transaction_from="0xCd",
        provider="one.example",
        facilitator_id="f",
        token_address=DAI.upper().replace("0X", "0x"),
        sender="0xAA",
        recipient="SoLaNa",
        amount=20_000_000_000_000_000_000,
        decimals=18,
        ignored=[1],
    )
    assert build([service()], payments=[whole]) == 0
    del whole["ignored"]
    lowered = {"address": "0xab", "transaction_from": "0xcd", "token_address": DAI}
    assert items(artifacts) == [whole | lowered | {"sender": "0xaa"}]
    assert overview(artifacts)["total_amount"] == 20_000_000


def test_csv_and_json_lines_in_either_shape_give_the_same_payments(tmp_path: Path) -> None:
    ours = [payment(tx_hash=f"0x{n}", amount=n * 1000, success="true") for n in range(1, 9)]
    theirs = [
        {
            "network": row["chain"],
            "block_time": "2026-05-07 10:16:51.000Z",
            "tx_hash": row["tx_hash"].upper().replace("0X", "0x"),
            "from_addr": "0xA",
            "to_addr": "0xB",
            "amount_usdc": row["amount"] / 10**6,
            "success": True,
            "unknown": 'a "quoted", text',
        }
        for row in ours
    ]
    files = [
        write_lines(tmp_path / "ours.jsonl", ours),
        write_csv(tmp_path / "ours.csv", ours),
        write_lines(tmp_path / "theirs.jsonl", theirs),
        write_csv(tmp_path / "theirs.csv", theirs),
    ]
    compressors: list[Callable[[bytes], bytes]] = [gzip.compress, zstd.compress]
    for name, compress in zip(files[1:3], compressors, strict=True):
        compressed = Path(name + ".zipped")
        compressed.write_bytes(compress(Path(name).read_bytes()))
        files.append(str(compressed))
    first, *others = (load(tmp_path, name).payments for name in files)
    assert len(first) == 8
    for name, loaded in zip(files[1:], others, strict=True):
        assert loaded == first, name


Row = tuple[str, int | None, str, int]
"""A payment: transaction hash, log index, sender, amount."""

payment_rows: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(
        st.sampled_from(["0x1", "0x2"]),
        st.sampled_from([None, None, 1, 2]),
        st.sampled_from("ab"),
        st.sampled_from([1, 2]),
    ),
    max_size=12,
)


def write_payments(path: Path, rows: list[Row]) -> str:
    return write_lines(
        path,
        [
            payment(tx_hash=tx_hash, log_index=log_index, sender=sender, amount=amount)
            for tx_hash, log_index, sender, amount in rows
        ],
    )


@settings(max_examples=examples(25), deadline=None)
@given(payment_rows, payment_rows)
def test_exports_with_and_without_log_index_do_not_double(one: list[Row], two: list[Row]) -> None:
    rows = one + two
    indexed = {each[:2] for each in rows if each[1] is not None}
    with_index = {(each[0], *each[2:]) for each in rows if each[1] is not None}
    without = {(each[0], *each[2:]) for each in rows if each[1] is None}
    with tempfile.TemporaryDirectory() as folder:
        names = [write_payments(Path(folder) / f"{n}.jsonl", r) for n, r in enumerate((one, two))]
        names = [name for name in names if Path(name).stat().st_size]
        loaded = load(Path(folder), *names)
    assert len(loaded.payments) == len(indexed) + len(without - with_index)
    left_out = sum(tally.left_out.get("duplicate payments", 0) for tally in loaded.tallies)
    assert left_out == len(rows) - len(loaded.payments)


def test_an_export_in_dollars_does_not_double_one_in_base_units(tmp_path: Path) -> None:
    units = write_csv(tmp_path / "1.csv", [payment(log_index=n) for n in range(3)])
    row = payment(amount_usdc="0.010000", chain="8453")
    del row["amount"], row["decimals"]
    dollars = write_csv(tmp_path / "2.csv", [row])
    loaded = load(tmp_path, units, dollars)
    assert loaded.dollars() == [0.01] * 3
    assert loaded.tallies[1].left_out == {"duplicate payments": 1}


def test_names_of_one_network_are_one_network_under_the_first_of_them(tmp_path: Path) -> None:
    chains = ["8453", "base", "Base", "base-mainnet", "eip155:8453", " BASE_Mainnet "]
    name = write_lines(tmp_path / "p.jsonl", [payment(chain=chain) for chain in chains])
    (loaded,) = load(tmp_path, name).payments
    assert (loaded["network"], loaded["texts"]["chain"]) == ("base", "8453")


spellings = st.one_of(
    st.text([*map(chr, range(32, 127))], min_size=1),
    st.text("0123456789", min_size=1, max_size=6),
    st.sampled_from([*NETWORK_KEYS, "solana:" + "x" * 44, "Solana_" + "X" * 44]),
    st.sampled_from([*NETWORK_KEYS]).map(lambda name: name.replace("-mainnet", ":mainnet")),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["evm", "eip155", "EIP155"]),
        st.sampled_from(":-_"),
        st.integers(0, 99_999) | st.just("x"),
    ),
    st.tuples(st.sampled_from([*NETWORK_KEYS]), st.sampled_from([str.upper, str.title])).map(
        lambda name: " " + name[1](name[0]).replace("-", "_")
    ),
)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(spellings, min_size=1))
def test_the_network_of_a_payment_is_its_key_in_the_service(names: list[str]) -> None:
    names = [name for name in names if not is_test_network(name)] or ["Base"]
    rows = [payment(tx_hash="", chain=name) for name in names]
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(Path(folder), write_lines(Path(folder) / "p.jsonl", rows))
    assert [row["network"] for row in loaded.payments] == [network_key(name) for name in names]


def test_what_is_no_dollar_is_counted_apart(tmp_path: Path) -> None:
    rows = [
        payment(tx_hash="0x1"),
        payment(tx_hash="0x2", token_address=USDC),
        payment(tx_hash="0x3", token_address=DAI, amount=10**16, decimals=18),
        payment(tx_hash="0x4", token_address=""),
        payment(tx_hash="0x5", chain="base-sepolia"),
        payment(tx_hash="0x6", chain="84532", token_address=USDC),
        payment(tx_hash="0x7", chain="eip155:31337", amount=10**30),
        payment(tx_hash="0x8", token_address="0xdd"),
        payment(tx_hash="0x9", token_address="0xdd", amount=10**35, decimals=18),
        payment(tx_hash="0xa", token_address="0xdd", decimals=24),
        payment(tx_hash="0xb", chain="polygon", token_address=USDC),
        payment(tx_hash="0xc", token_address=EURC.replace("a", "A")),
        payment(tx_hash="0xd", chain="base-sepolia", success=False),
    ]
    name = write_lines(tmp_path / "p.jsonl", rows)
    loaded = load(tmp_path, name)
    assert loaded.dollars() == [0.01] * 4
    assert [row["token_address"] is None for row in loaded.payments] == [True, False, False, True]
    (tally,) = loaded.tallies
    assert (tally.records, tally.malformed) == (13, 0)
    assert tally.left_out == {
        "failed payments": 1,
        "payments on test networks": 3,
        "payments in unknown tokens": 4,
        "payments in other currencies": 1,
    }
    assert loaded.hashes() == ["0x1", "0x2", "0x3", "0x4"]


def test_a_token_of_the_operator_counts_as_dollars(tmp_path: Path) -> None:
    more = Stablecoins([Stablecoin("base", "0xDd", "XUSD", 6)])
    name = write_lines(tmp_path / "p.jsonl", [payment(token_address="0xdd")])
    assert load(tmp_path, name, stablecoins=more).dollars() == [0.01]


def test_decimals_that_contradict_the_token_are_rejected(tmp_path: Path) -> None:
    rows = [payment(log_index=n, token_address=USDC, decimals=d) for n, d in enumerate((6, 18))]
    (reject,) = load(tmp_path, write_lines(tmp_path / "p.jsonl", rows)).rejects
    assert (reject["position"], reject["path"]) == ("row 2", "$.decimals")
    assert reject["reason"] == "is not the number of decimals of this token"


SUCCESSES = "true t 1 1.0 yes y ok success succeeded confirmed TRUE True Y OK SUCCESS Confirmed"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_success_is_understood_in_any_usual_spelling(form: str, tmp_path: Path) -> None:
    values: list[object] = [*SUCCESSES.split(), True, 1, 1.0]
    failed = ["false", "0", "0.0", "no", "", "failed", "reverted", "10", "1.5", "yes!"]
    rows = [payment(tx_hash=f"0x{n}", success=v) for n, v in enumerate([*values, *failed])]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"p.{form}", rows)
    loaded = load(tmp_path, name)
    assert len(loaded.payments) == len(values)
    assert loaded.tallies[0].left_out == {"failed payments": len(failed)}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_times_are_read_in_every_usual_form(form: str, tmp_path: Path) -> None:
    moment = 1_777_112_211_000  # milliseconds since 1970
    times = [
        "2026-04-25 10:16:51.000 UTC",
        "2026-04-25 10:16:51 UTC",
        "2026-04-25 10:16:51",
        "2026-04-25T10:16:51Z",
        "2026-04-25T12:16:51.000+02:00",
        moment,
        moment // 1000,
        f"{moment}",
        f"{moment // 1000}.0",
        float(moment),
    ]
    rows = [payment(tx_hash=f"0x{n}", block_timestamp=time) for n, time in enumerate(times)]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"p.{form}", rows)
    loaded = load(tmp_path, name)
    assert [row["paid_at"] for row in loaded.payments] == [moment] * len(times)


EXACT_DOLLARS = {
    "0.30000000000000004": 0.3,
    "0.0030000000000000001": 0.003,
    "1.1099999999999999": 1.11,
    "123456.78900000001": 123456.789,
    "0.010000000000": 0.01,
    "5.00": 5.0,
    "1,250.50": 1250.5,
}


def test_dollars_may_have_the_rounding_error_of_a_double(tmp_path: Path) -> None:
    row = payment()
    del row["amount"], row["decimals"]
    texts = [*EXACT_DOLLARS, "0.1234567", "0.00000001", "3.0000001", "0,005", "1,25"]
    rows = [row | {"amount_usdc": text, "tx_hash": text} for text in texts]
    loaded = load(tmp_path, write_csv(tmp_path / "p.csv", rows))
    assert dict(zip(loaded.hashes(), loaded.dollars(), strict=True)) == EXACT_DOLLARS
    assert loaded.tallies[0].malformed == 5


DUNE = """block_time,payer,merchant,value_usd,facilitator,provider
2026-04-25 10:16:51.000 UTC,0xA,0xb,0.01,0xF,one
2026-04-25 10:16:51.000 UTC,0xA,0xb,0.01,0xF,one
2026-04-26 23:59:59.999 UTC,0xC,0xC,0.30000000000000004,0xF,
"""


def test_an_export_without_chain_and_hash_loads_whole_with_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(DUNE)
    with pytest.raises(SourceError, match="dune: there is no column for chain among block"):
        load(tmp_path, SourceOptions(name="dune", path=str(path)))
    (tmp_path / "payments-0").unlink()
    loaded = load(tmp_path, SourceOptions(name="dune", path=str(path), chain="eip155:8453"))
    assert loaded.dollars() == [0.01, 0.01, 0.3]
    assert {row["network"] for row in loaded.payments} == {"base"}
    last = loaded.payments[-1]
    assert last["sender"] == last["recipient"]
    assert loaded.tallies[0].left_out == {}


def test_the_chain_of_an_input_yields_to_a_column(tmp_path: Path) -> None:
    chains = ("base", "it's a chain", "")
    rows = [payment(chain=chain, log_index=number) for number, chain in enumerate(chains)]
    name = write_csv(tmp_path / "p.csv", rows)
    loaded = load(tmp_path, SourceOptions(name="p", path=name, chain="polygon"))
    assert [row["network"] for row in loaded.payments] == ["base", "it's-a-chain"]
    assert loaded.tallies[0].malformed == 1


MAPPED = {
    "sender": 'who "paid"',
    "recipient": "to/whom~",
    "dollars": "it's usd",
    "block_timestamp": "$.when",
}


@pytest.mark.parametrize("write", [write_csv, write_lines, write_parquet])
def test_columns_are_mapped(write: Callable[[Path, list[Json]], str], tmp_path: Path) -> None:
    values = ("0xA", "SoL", "0.25", "2026-04-25 10:16:51")
    row = dict(zip(MAPPED.values(), values, strict=True)) | {"sender": "no", "amount": "1"}
    name = write(tmp_path / "mapped", [row])
    other = write_lines(tmp_path / "plain", [payment(sender="0xa", recipient="SoL")])
    loaded = load(
        tmp_path, SourceOptions(name="p", path=name, columns=MAPPED, chain="it's ours"), other
    )
    assert loaded.dollars() == [0.25, 0.01]
    mapped, plain = loaded.payments
    for column in ("sender", "recipient"):
        assert mapped[column] == plain[column]
    assert mapped["network"] == "it's-ours"


@pytest.mark.parametrize("write", [write_csv, write_lines, write_parquet])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"sendr": "sender"}, "p: payments have no column sendr to map; the nearest is sender"),
        ({"sender": "payor"}, "p: there is no column payor for sender among .*recipient"),
    ],
)
def test_a_mapping_of_no_column_names_it(
    columns: dict[str, str],
    message: str,
    write: Callable[[Path, list[Json]], str],
    tmp_path: Path,
) -> None:
    name = write(tmp_path / "p", [payment()])
    with pytest.raises(SourceError, match=message):
        load(tmp_path, SourceOptions(name="p", path=name, columns=columns))


def test_payments_without_a_hash_or_with_the_id_of_another_have_stable_unique_ids(
    artifacts: Path, build: Build
) -> None:
    anonymous = payment(sender="0xnobody")
    del anonymous["tx_hash"]
    one, two = payment(id="p", log_index=1), payment(id="p", log_index=2)
    other = payment(id="q", log_index=3)
    alike = payment(id="p", tx_hash="")
    rows = [anonymous, anonymous, anonymous | {"amount": 5}, one, two, other, alike, alike]
    assert build([service()], payments=rows) == 0
    first = items(artifacts)
    assert len({item["id"] for item in first}) == len(rows)
    assert [item["tx_hash"] for item in first if item["sender"] == "0xnobody"] == [""] * 3
    given = [item["id"][:2] for item in first if item["sender"] != "0xnobody"]
    assert sorted(given) == ["p-", "p-", "p-", "p-", "q"]
    assert build([service()], payments=rows[::-1]) == 0
    assert items(artifacts) == first


def test_failed_payments_are_left_out(tmp_path: Path) -> None:
    def rows(values: tuple[object, ...]) -> list[Json]:
        return [payment(tx_hash=f"0x{n}", success=value) for n, value in enumerate(values)]

    lines = [*rows((True, False, None, "", "null", "no", 0)), payment(tx_hash="0x7")]
    table = [row | {"amount": "?"} for row in rows(("false", "no", "", "null", "0"))]
    table.append(payment(tx_hash="0x9", success="true"))
    names = write_lines(tmp_path / "p.jsonl", lines), write_csv(tmp_path / "p.csv", table)
    loaded = load(tmp_path, *names)
    assert loaded.hashes() == ["0x0", "0x7", "0x9"]
    assert [(tally.records, tally.malformed, tally.left_out) for tally in loaded.tallies] == [
        (8, 0, {"failed payments": 6}),
        (6, 0, {"failed payments": 5}),
    ]


def test_rows_keep_their_order_with_several_threads(
    tmp_path: Path, artifacts: Path, build: Build
) -> None:
    count = 250_000  # more than two row groups of DuckDB, and two of its read buffers
    rows = [row(number) for number in range(count)]
    for number in range(0, count, 25_000):
        rows[number] = row(number, log_index="x")
    copies = [f"polygon,{row(number)[5:]}" for number in range(1, count, 50_000)]
    rows[2::50_000] = [copy.replace(",10000,", ",7,") for copy in copies]
    rows += copies
    name = write_rows(tmp_path / "p.csv", rows)
    listing = tmp_path / "rejects.jsonl"
    options = (*ANY_REJECTS, "--rejects", str(listing))
    assert build([service()], payments=name, options=options) == 0
    rejects = [json.loads(line) for line in listing.read_text().splitlines()]
    assert [reject["position"] for reject in rejects] == [
        f"row {number + 2}" for number in range(0, count, 25_000)
    ]
    totals = overview(artifacts)
    assert totals["total_transactions"] == count - 10
    assert totals["total_amount"] == (count - 15) * 10_000 + 5 * 7


FUTURE = NOW + timedelta(hours=2)
BAD_ROWS: dict[str, tuple[Json, str, str]] = {
    "no chain": ({"chain": ""}, "chain", "is missing"),
    "no time": ({"block_timestamp": None}, "block_timestamp", "is missing"),
    "no such time": (
        {"block_timestamp": "2026-02-30 00:00:00"},
        "block_timestamp",
        "is not a date",
    ),
    "a date only": ({"block_timestamp": "2026-02-03"}, "block_timestamp", "is not a date"),
    "a date as a number": ({"block_timestamp": "20260203"}, "block_timestamp", "is not a date"),
    "microseconds": ({"block_timestamp": 1767970767000000}, "block_timestamp", "is not a date"),
    "part of a second": ({"block_timestamp": "1767970767.5"}, "block_timestamp", "is not a date"),
    "infinity as time": ({"block_timestamp": "infinity"}, "block_timestamp", "is not a date"),
    "the far past": ({"block_timestamp": "1969-12-31T23:59:59Z"}, "block_timestamp", "1970"),
    "the future": ({"block_timestamp": FUTURE.isoformat()}, "block_timestamp", "in the future"),
    "no sender": ({"sender": ""}, "sender", "is missing"),
    "no recipient": ({"recipient": None}, "recipient", "is missing"),
    "no amount": ({"amount": None}, "amount", "is missing"),
    "a negative amount": ({"amount": -1}, "amount", "is not a whole number"),
    "a fractional amount": ({"amount": "1.5"}, "amount", "is not a whole number"),
    "an amount with exponent": ({"amount": "1e6"}, "amount", "is not a whole number"),
    "a NaN amount": ({"amount": "NaN"}, "amount", "is not a whole number"),
    "an endless amount": ({"amount": "9" * 60}, "amount", "is not a whole number"),
    "a fortune": ({"amount": 10**19}, "amount", "is over 10^12 US dollars"),
    "no decimals": ({"decimals": None}, "decimals", "is missing"),
    "negative decimals": ({"decimals": -6}, "decimals", "from 0 to 18"),
    "19 decimals": ({"decimals": 19}, "decimals", "from 0 to 18"),
    "a log index of words": ({"log_index": "first"}, "log_index", "is not a whole number"),
}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_each_bad_row_is_rejected_with_its_line_column_and_reason(
    form: str, tmp_path: Path
) -> None:
    good = payment(log_index=1)
    rows = [good]
    for number, (change, _, _) in enumerate(BAD_ROWS.values()):
        rows += [
            good | change | {"tx_hash": f"0xBad{number}"},
            good | {"tx_hash": f"0x{number}"},
        ]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"payments.{form}", rows)
    loaded = load(tmp_path, name)
    rejects = loaded.rejects
    first = 3 if form == "csv" else 2
    assert [(reject["source"], reject["position"], reject["id"]) for reject in rejects] == [
        (name, f"row {first + 2 * number}", f"0xbad{number}") for number in range(len(BAD_ROWS))
    ]
    for reject, (case, (_, column, reason)) in zip(rejects, BAD_ROWS.items(), strict=True):
        assert reject["path"] == f"$.{column}", case
        assert reason in reject["reason"], case
    assert len(loaded.payments) == 1 + len(BAD_ROWS)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_fault_is_reported_under_the_column_name_of_the_file(form: str, tmp_path: Path) -> None:
    row = payment()
    row = {"network": row.pop("chain"), "value_usd": "0.01"} | row
    del row["amount"], row["decimals"]
    bad = [row | {"tx_hash": f"0x{d}", "value_usd": d} for d in ("", "1000000000001", "-1")]
    rows = [row, *bad, row | {"network": ""}]
    name = (write_csv if form == "csv" else write_lines)(tmp_path / f"p.{form}", rows)
    rejects = load(tmp_path, name).rejects
    assert [reject["path"] for reject in rejects] == [*["$.value_usd"] * 3, "$.network"]


@settings(deadline=None, max_examples=examples(10))
@given(st.lists(st.floats(1e-6, 1e9) | st.integers(1, 999).map(lambda n: n / 10**6), min_size=1))
def test_a_float_has_one_verdict_in_csv_json_lines_and_parquet(dollars: list[float]) -> None:
    rows = [
        {name: each for name, each in payment(tx_hash=f"0x{n}").items() if name != "amount"}
        | {"value_usd": value}
        for n, value in enumerate(dollars)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded = [
            load(folder, write_csv(folder / "p.csv", rows)),
            load(folder, write_lines(folder / "p.jsonl", rows)),
            load(folder, write_parquet(folder / "p.parquet", rows)),
        ]
    assert loaded[0].payments == loaded[1].payments == loaded[2].payments
    assert len({len(each.rejects) for each in loaded}) == 1


def test_a_small_or_large_float_is_a_number_however_it_is_written(tmp_path: Path) -> None:
    base = payment(decimals=18)
    large = [base | {"tx_hash": f"0x{n}", "amount": n * 1e16} for n in (1, 2.5)]
    small = {name: each for name, each in base.items() if name not in ("amount", "decimals")}
    tiny = [small | {"tx_hash": f"0x{n}", "amount_usdc": n} for n in (1e-05, 2.5e-05)]
    assert "1e-05" in Path(write_csv(tmp_path / "tiny.csv", tiny)).read_text()
    assert "1e+16" in Path(write_csv(tmp_path / "large.csv", large)).read_text()
    for name, rows, expected in (
        ("tiny", tiny, [0.00001, 0.000025]),
        ("large", large, [0.01, 0.025]),
    ):
        for path in (f"{tmp_path / name}.csv", write_lines(tmp_path / f"{name}.jsonl", rows)):
            loaded = load(tmp_path, path)
            assert (sorted(loaded.dollars()), loaded.rejects) == (expected, []), path


EXPLORERS = {
    "an explorer": (
        '"Transaction Hash","DateTime (UTC)","From","To","TokenValue","ContractAddress"\n'
        f'"0x1","2026-04-25 10:16:51","0xA","0xB","1,250.5","{USDC}"\n'
    ),
    "another explorer": (
        "TxHash,UnixTimestamp,FromAddress,ToAddress,Value (USD)\n0x1,1777112211,0xa,0xb,1250.5\n"
    ),
    "a warehouse": (
        "token_address,from_address,to_address,value,transaction_hash,log_index,block_timestamp\n"
        f"{USDC},0xa,0xb,1250500000,0x1,7,2026-04-25 10:16:51 UTC\n"
    ),
    "another warehouse": (
        "TIMESTAMP,FROM,TO,AMOUNT_RAW,AMOUNT,DECIMALS,TX_HASH\n"
        "1777112211000,0xa,0xb,1250500000,1250.5,6,0x1\n"
    ),
}


@pytest.mark.parametrize("case", EXPLORERS)
def test_headers_of_explorers_and_warehouses_are_known(case: str, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(EXPLORERS[case])
    loaded = load(tmp_path, SourceOptions(name="p", path=str(path), chain="base"))
    assert loaded.rejects == []
    (paid,) = loaded.payments
    assert (paid["sender"], paid["recipient"], paid["tx_hash"]) == ("0xa", "0xb", "0x1")
    assert (paid["paid_at"], paid["atto"]) == (1_777_112_211_000, 12505 * 10**17)


def test_keys_of_explorers_are_known_in_json_lines(tmp_path: Path) -> None:
    rows = [{"timestamp": 1_777_112_211, "From": "0xA", "To": "0xB", "Value (USD)": "0.5"}]
    name = write_lines(tmp_path / "p.jsonl", [*rows, {"from": "0xa", "to": "", "timestamp": "x"}])
    loaded = load(tmp_path, SourceOptions(name="p", path=name, chain="base"))
    assert loaded.dollars() == [0.5]
    assert [each["path"] for each in loaded.rejects] == ["$.timestamp"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_units_of_a_token_are_dollars_where_a_column_says_so(form: str, tmp_path: Path) -> None:
    row: Json = {"time": 1_777_112_211, "from": "0xa", "to": "0xb", "TokenValue": "1000.5"}
    row |= {"token_value": "1000.5", "chain": "base"}
    write = write_csv if form == "csv" else write_lines
    cases: list[tuple[Json, Json]] = [
        ({}, {"dollars": "TokenValue"}),
        ({"ContractAddress": USDC}, {}),
        ({"ContractAddress": "0xdd"}, {}),
        ({"amount": "7000000", "decimals": "6"}, {}),
        ({"amount": "", "decimals": "6"}, {}),
    ]
    sources = [
        SourceOptions(name="p", path=write(tmp_path / str(n), [row | more]), columns=columns)
        for n, (more, columns) in enumerate(cases)
    ]
    lines = write_lines(tmp_path / "p.jsonl", [row | {"ContractAddress": USDC}, row])
    loaded = load(tmp_path, *sources, SourceOptions(name="p", path=lines))
    assert [paid["file"] for paid in loaded.payments] == [0, 1, 3, 5]
    assert loaded.dollars() == [1000.5, 1000.5, 7.0, 1000.5]


def test_all_missing_columns_are_named_with_a_guess_for_each(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("created_at,buyer_wallet,seller_wallet,usd_price,memo\n")
    with pytest.raises(SourceError) as error:
        load(tmp_path, SourceOptions(name="p", path=str(path)))
    assert str(error.value) == (
        "p: there is no column for chain, block_timestamp, sender, recipient, amount or dollars "
        "among created_at, buyer_wallet, seller_wallet, usd_price, memo; map the columns of the "
        'source: columns = {chain = "NAME", block_timestamp = "created_at", '
        'sender = "buyer_wallet", recipient = "seller_wallet", dollars = "usd_price"}, or give '
        'the network of all rows: chain = "base"'
    )


def test_an_amount_without_decimals_has_those_of_its_token(tmp_path: Path) -> None:
    rows = [payment(log_index=n, token_address=each) for n, each in enumerate((USDC, DAI, "0xdd"))]
    for each in rows:
        del each["decimals"]
    loaded = load(tmp_path, write_csv(tmp_path / "p.csv", rows))
    assert loaded.dollars() == [0.01, 10**-14]
    assert loaded.tallies[0].left_out == {"payments in unknown tokens": 1}
