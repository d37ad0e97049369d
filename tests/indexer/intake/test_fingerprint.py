"""The fingerprint of the inputs, by which a build without changes skips reading them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from indexer.__main__ import main
from indexer.build import build_snapshot
from indexer.catalogue_file import name_source
from indexer.intake.findings import MAX_REASONS
from indexer.intake.fingerprint import hash_code, program_versions
from indexer.options import BuildOptions, RankingOptions
from indexer.progress import Progress, Stage
from service.artifacts.publishing import LAST, LOCK
from service.snapshot.manifest import read_manifest
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, folder, ids, reported
from tests.support.intake import CatalogueFolder, listings, source
from tests.support.running import PLAIN, Build, Json, payment, service, write_lines
from tests.support.sources.feeds import misbehaving, pages_of, sending
from tests.support.sources.x402 import accept, resource

READ_STAGE = "read"
"""The stage that a build of unchanged inputs skips."""
MAX_REJECTS = ("--max-rejects", "50%")


class Inputs(NamedTuple):
    """Paths of one input file of each kind, and of the outputs."""

    artifacts: Path
    source: Path
    payments: Path
    overlay: Path
    rejects: Path

    def build(self, *options: str, plain: Sequence[str] = PLAIN) -> int:
        outputs = ["--out", self.artifacts, "--rejects", self.rejects]
        arguments = ["build", self.source, "--overlay", self.overlay, *outputs, "--json"]
        return main([*map(str, arguments), *MAX_REJECTS, *plain, *options])

    def build_with_payments(self, plain: Sequence[str] = PLAIN) -> int:
        return self.build("--transactions", str(self.payments), plain=plain)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Inputs that are built, without payments, and changed by tests."""
    folder = tmp_path_factory.mktemp("built") / "live"
    folder.mkdir()
    records = [service("a"), service("b"), resource(), {"name": "broken"}]
    write_lines(folder / "source.jsonl", records * 2)
    write_lines(folder / "payments.jsonl", [payment(), payment()])
    write_lines(folder / "overlay.jsonl", [{"a": {"enriched": True}, "odd": None}])
    names = ("artifacts", "source.jsonl", "payments.jsonl", "overlay.jsonl", "rejects.jsonl")
    inputs = Inputs(*(folder / name for name in names))
    assert inputs.build() == 0
    shutil.copytree(folder, folder.with_name("saved"))
    return inputs


@pytest.fixture
def inputs(built: Inputs) -> Inputs:
    """The inputs as they were built, in the same place."""
    folder = built.artifacts.parent
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("saved"), folder)
    return built


def test_unchanged_inputs_are_not_read_again(
    inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(inputs.artifacts)
    assert inputs.build_with_payments(plain=()) == 0
    first, listed = reported(capsys), inputs.rejects.read_bytes()
    os.utime(inputs.artifacts / "CURRENT", (0, 0))
    assert inputs.build_with_payments(plain=()) == 0
    second = reported(capsys)
    assert READ_STAGE in first["stages"]
    assert list(second["stages"]) == [
        "compare with the last build",
        "make the downloads",
        "write the Whoosh index",
    ]
    assert (first["changed"], second["changed"], second["changes"]) == (True, False, None)
    assert (first["indexed"], second["indexed"]) == (first["services"], 0)
    for key in ("changed", "changes", "stages", "seconds", "indexed"):
        del first[key], second[key]
    for each in (*first["sources"], *second["sources"]):
        del each["readAt"], each["unchanged"]
    assert second == first
    assert first["firstFindings"]
    assert first["unusedOverlays"]
    assert inputs.rejects.read_bytes() == listed
    assert open_snapshot(inputs.artifacts).checked_at.year > 1970


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def replace_end(path: Path) -> None:
    """Replace the last byte, which is a line feed: the size stays the same."""
    content = path.read_bytes()
    assert content.endswith(b"\n")
    path.write_bytes(content[:-1] + b" ")


def damage(inputs: Inputs) -> None:
    path = folder(inputs.artifacts) / "records.json"
    path.write_bytes(path.read_bytes().replace(b"USDC", b"USDT"))


def roll_back(inputs: Inputs) -> None:
    other = write_lines(inputs.source.with_name("other.jsonl"), [service("other")])
    last = (inputs.artifacts / LAST).read_bytes()
    assert main(["build", other, "--out", str(inputs.artifacts), "--quiet", *PLAIN]) == 0
    (inputs.artifacts / LAST).write_bytes(last)


CHANGES: dict[str, Callable[[Inputs], object]] = {
    "one more byte of a source": lambda inputs: append(inputs.source),
    "one more byte of an overlay": lambda inputs: append(inputs.overlay),
    "another byte of a source": lambda inputs: replace_end(inputs.source),
    "another byte of an overlay": lambda inputs: replace_end(inputs.overlay),
    "a byte of the snapshot": damage,
    "the list of rejects": lambda inputs: append(inputs.rejects),
    "no list of rejects": lambda inputs: inputs.rejects.unlink(),
    "no report of the last build": lambda inputs: (inputs.artifacts / LAST).unlink(),
    "a damaged report": lambda inputs: (inputs.artifacts / LAST).write_bytes(b'{"digest":"\xff'),
    "another snapshot served": roll_back,
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_the_inputs_is_built(
    change: str, inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    first = current(inputs.artifacts)
    CHANGES[change](inputs)
    assert inputs.build() == 0
    report = reported(capsys)
    assert READ_STAGE in report["stages"]
    assert report["snapshot"] == first
    assert report["changed"] == (change == "another snapshot served")
    assert len(inputs.rejects.read_text().splitlines()) == report["findings"]
    assert main(["verify", str(inputs.artifacts)]) == 0


def test_no_change_of_the_inputs_is_not_built(
    inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    """Show that the tests of changes begin with what is built."""
    assert inputs.build() == 0
    assert READ_STAGE not in reported(capsys)["stages"]


def test_any_change_of_the_payments_is_built(
    inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inputs.build_with_payments() == 0
    first = reported(capsys)
    assert READ_STAGE in first["stages"]  # they are one input more
    for change in (append, replace_end):
        change(inputs.payments)
        assert inputs.build_with_payments() == 0
        report = reported(capsys)
        assert READ_STAGE in report["stages"], change
        assert report["snapshot"] == first["snapshot"], change


@pytest.mark.parametrize(
    "options",
    [
        ("--max-price", "1"),
        ("--allow-http",),
        ("--allow-private",),
        ("--deny", "host:nobody.example"),
        ("--max-rejects", "0%"),
        ("--on-error", "last"),
        ("--forget",),
    ],
)
def test_a_changed_option_is_built(
    options: tuple[str, ...], inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inputs.build(*options) == 0
    assert READ_STAGE in reported(capsys)["stages"]


def test_a_changed_version_of_a_dependency_is_built(
    inputs: Inputs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = current(inputs.artifacts)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99.9")
    program_versions.cache_clear()  # that of a process
    assert inputs.build() == 0
    program_versions.cache_clear()
    report = reported(capsys)
    assert (READ_STAGE in report["stages"], report["snapshot"]) == (True, first)


@pytest.mark.parametrize(
    "options", [["--no-semantic", "--set", "saturation=3.4"], []], ids=["setting", "semantic"]
)
def test_a_changed_search_configuration_is_another_snapshot(
    options: list[str], inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    first = current(inputs.artifacts)
    assert inputs.build("--no-downloads", *options, plain=()) == 0
    report = reported(capsys)
    assert (READ_STAGE in report["stages"], report["snapshot"] == first) == (True, False)


def test_a_module_of_a_sub_package_changes_the_hash_of_the_code(tmp_path: Path) -> None:
    module = tmp_path / "package" / "sub" / "module.py"
    module.parent.mkdir(parents=True)
    hashes = set()
    for code in ("", "x = 1", "x = 2"):
        module.write_text(code)
        hashes.add(hash_code([str(tmp_path)]))
    assert len(hashes) == 3


class ReplacingSource(Progress):
    """Replaces a source after its build has hashed it and before it is read."""

    def __init__(self, source: Path, content: bytes) -> None:
        super().__init__()
        self._source = source
        self._content = content

    @contextmanager
    def stage(
        self, name: str, total: int | None = None, *, in_bytes: bool = False
    ) -> Iterator[Stage]:
        if name == READ_STAGE:
            self._source.write_bytes(self._content)
        with super().stage(name, total, in_bytes=in_bytes) as stage:
            yield stage


def test_a_source_that_changes_after_it_was_hashed_is_read_again_later(
    tmp_path: Path, artifacts: Path
) -> None:
    source = tmp_path / "source.jsonl"
    hashed, read = (json.dumps(service(name)).encode() for name in ("hashed", "read-later"))
    ranking = RankingOptions(is_semantic=False)
    sources = (name_source(str(source)),)
    options = BuildOptions(sources=sources, out=artifacts, ranking=ranking, downloads=False)
    source.write_bytes(hashed)
    build_snapshot(options, ReplacingSource(source, read))
    assert ids(artifacts) == ["read-later"]
    source.write_bytes(hashed)
    build_snapshot(options)
    assert ids(artifacts) == ["hashed"]


def test_a_file_in_another_role_or_position_is_built(
    inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    both = write_lines(inputs.source.with_name("both.jsonl"), [payment(id="a")])
    arguments = ["--out", str(inputs.artifacts), "--json", *PLAIN]
    for role in (["--transactions", both], ["--overlay", both], []):
        assert main(["build", str(inputs.source), *role, *arguments, *MAX_REJECTS]) == 0
        assert READ_STAGE in reported(capsys)["stages"]
    # A payment is no list of services.
    assert main(["build", str(inputs.source), both, *arguments]) == 1


def test_a_new_file_in_a_folder_is_read(
    tmp_path: Path, artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "sources"
    source.mkdir()
    write_lines(source / "1.jsonl", [service("a")])
    assert build(source) == 0
    write_lines(source / "2.jsonl", [service("b")])
    assert build(source, options=("--json",)) == 0
    assert READ_STAGE in reported(capsys)["stages"]
    assert ids(artifacts) == ["a", "b"]


def test_standard_input_is_read_every_time(
    tmp_path: Path,
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("a", "b"):
        with Path(write_lines(tmp_path / "input", [service(name)])).open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert build("-", options=("--json", "--jobs", "1")) == 0
        assert READ_STAGE in reported(capsys)["stages"]
        assert ids(artifacts) == [name]


def test_rejects_are_written_to_a_device_by_every_build(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--rejects", "/dev/null", "--json", *MAX_REJECTS)
    for _ in range(2):
        assert build([service("a"), {}], options=options) == 0
        assert READ_STAGE in reported(capsys)["stages"]


@pytest.mark.parametrize("distinct", [0, 2 * MAX_REASONS])
def test_a_payment_in_the_future_makes_every_build_read_its_sources(
    distinct: int,
    tmp_path: Path,
    artifacts: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Count its reason among `other reasons` as well."""
    soon = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    quoted = 'tx,"2026-05-07T10:16:51Z,0xa,0xb,1,6,base\n'
    rows = [
        f"{quoted}0x{n},2026-05-07T10:16:51Z,0xa,0xb,1,6,base\n{quoted}" for n in range(distinct)
    ]
    payments = tmp_path / "payments.csv"
    payments.write_text(
        "tx_hash,block_timestamp,sender,recipient,amount,decimals,chain\n"
        f"0xfirst,2026-05-07T10:16:51Z,0xa,0xb,1,6,base\n{''.join(rows)}"
        f"0xlast,{soon},0xa,0xb,1,6,base\n"
    )
    for _ in range(2):
        options = ("--max-rejects", "100%", "--json")
        assert build([service("a")], payments=payments, options=options) == 0
        report = reported(capsys)
        assert READ_STAGE in report["stages"]
        assert (report["payments"], report["findings"] > distinct) == (1, True)
    assert read_manifest(folder(artifacts)).inputs is None


URL = "https://a.example/x"


@pytest.mark.parametrize(
    ("fields", "policy", "holds"),
    [
        ({}, {}, timedelta(days=6)),
        ({"lastUpdated": -1}, {"max_age": "3d"}, timedelta(days=2)),
        ({"lastUpdated": 2}, {}, timedelta(days=2, hours=-1)),
        ({"lastUpdated": -5}, {"max_age": "3d"}, None),
        ({"lastUpdated": -5}, {}, None),
    ],
)
def test_a_build_is_repeated_until_a_result_depends_on_the_date(
    fields: Json,
    policy: Json,
    holds: timedelta | None,
    tmp_path: Path,
    build: Build,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.now(UTC)
    for name, days in fields.items():
        fields = {name: (now + timedelta(days=days)).isoformat()}
    probes = tmp_path / "probes.jsonl"
    seen = {"url": URL, "observed_at": (now - timedelta(days=1)).isoformat(), "outcome": "quoted"}
    write_lines(probes, [seen | {"status": 402, "quotes": [accept()]}])
    options = ("--json",) if fields else ("--json", "--probes", str(probes))

    def is_read(after: timedelta) -> bool:
        clock = SimpleNamespace(now=lambda tz: datetime.now(tz) + after)
        with monkeypatch.context() as patch:
            patch.setattr("indexer.build.datetime", clock)
            patch.setattr("indexer.report.datetime", clock)
            lists = [resource(URL, **fields), resource("https://b.example/x")]
            assert build(lists, options=options, policy=policy) == 0
        return READ_STAGE in reported(capsys)["stages"]

    nothing, minute = timedelta(0), timedelta(minutes=1)
    assert is_read(nothing)
    assert not is_read(nothing)
    end = timedelta(days=1000) if holds is None else holds
    assert not is_read(end - minute)
    assert is_read(end + minute) == (holds is not None)


@pytest.mark.parametrize("age", ["2900000d", "10000000d", "999999999999d", 2**62])
@pytest.mark.parametrize("key", ["max_age", "probe_max_age"])
def test_an_age_beyond_all_dates_is_for_ever(
    key: str, age: str | int, catalogue: CatalogueFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [source("feed", [resource(URL, lastUpdated="2026-05-07T10:16:51Z")])]
    if key == "probe_max_age":
        seen = {"url": URL, "observed_at": "2026-05-07T10:16:51Z", "outcome": "quoted"}
        quoted = seen | {"status": 402, "quotes": [accept()]}
        sources.append(source("probes", [quoted], kind="probes", trust=1))
    assert catalogue.build(*sources, options=("--json",), **{key: age}) == 0
    assert reported(capsys)["dependsOnTime"] is (age == "2900000d")
    (listing,) = listings(catalogue.artifacts).values()
    assert listing["ratecard"].get("alive", True) is True


def test_a_report_that_cannot_be_stored_does_not_fail_the_build(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    (artifacts / LAST).mkdir(parents=True)
    (artifacts / LOCK).touch()
    for _ in range(2):
        assert build([service("a")], options=("--json",)) == 0
        assert READ_STAGE in reported(capsys)["stages"]


def test_a_failed_build_is_not_remembered(
    inputs: Inputs, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = inputs.source.read_bytes()
    inputs.source.write_bytes(b"{")
    assert inputs.build() != 0
    assert inputs.build() != 0
    inputs.source.write_bytes(whole)
    capsys.readouterr()
    assert inputs.build() == 0
    assert reported(capsys)["changed"] is False
    assert ids(inputs.artifacts)[0] == "a"


def test_an_unchanged_file_of_a_url_takes_one_request_and_is_not_read(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    items: list[Json] = [resource(f"https://s{number}.example/") for number in range(25)]
    with misbehaving(sending(items, headers={"ETag": '"1"'})) as server:
        assert build(server.url, options=("--json",)) == 0
        assert READ_STAGE in reported(capsys)["stages"]
        assert len(server.requests) == 1
        server.behaviour = lambda exchange: exchange.respond(b"", 304)
        assert build(server.url, options=("--json",)) == 0
        assert len(server.requests) == 2
        assert server.requests[-1].headers["If-None-Match"] == '"1"'
        report = reported(capsys)
        assert (READ_STAGE in report["stages"], report["changed"]) == (False, False)
        server.behaviour = sending(items[1:], headers={"ETag": '"2"'})
        assert build(server.url, options=("--json",)) == 0
        report = reported(capsys)
        assert report["changes"] == {"added": 0, "changed": 0, "removed": 1}
    assert len(ids(artifacts)) == 24


def test_an_unchanged_feed_is_walked_when_its_time_has_come_and_not_read(
    artifacts: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    items: list[Json] = [resource(f"https://s{number}.example/") for number in range(25)]
    with misbehaving(pages_of(items, headers={"ETag": '"1"'})) as server:
        assert build(server.url, options=("--json",), keys={"every": "1h"}) == 0
        walk = len(server.requests)
        for every, requests in (("1h", 0), ("0s", walk)):
            before = len(server.requests)
            capsys.readouterr()
            assert build(server.url, options=("--json",), keys={"every": every}) == 0
            assert len(server.requests) == before + requests
            assert reported(capsys)["changed"] is False
        assert build(server.url, options=("--json",), keys={"every": "0s"}) == 0
        assert READ_STAGE not in reported(capsys)["stages"]
        server.behaviour = pages_of(items[1:], headers={"ETag": '"1"'})
        assert build(server.url, options=("--json",), keys={"every": "0s"}) == 0
        assert reported(capsys)["changes"] == {"added": 0, "changed": 0, "removed": 1}
    assert len(ids(artifacts)) == 24
