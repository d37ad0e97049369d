"""The files that others copy: an archive, the services as lines, and an index of these lines."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from indexer.__main__ import main
from service.artifacts.downloads import CURRENT_FILE, make_downloads, names_of
from service.artifacts.publishing import DOWNLOADS, stage
from service.snapshot.manifest import MANIFEST, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, decompressed, flip_a_bit, folder, listed, snapshots
from tests.support.publishing import look_at_downloads
from tests.support.running import (
    Build,
    Json,
    payment,
    run_indexer,
    serve,
    service,
    write_lines,
)


def paths(artifacts: Path, snapshot_id: str = "") -> list[Path]:
    """Return the archive, the lines and the index of a snapshot, by default the published one."""
    names = names_of(snapshot_id or current(artifacts))
    return [artifacts / DOWNLOADS / name for name in names]


def copied(artifacts: Path) -> set[str]:
    """Return the ids of the snapshots that have files in the folder of downloads."""
    files = (artifacts / DOWNLOADS).iterdir()
    return {path.name.partition(".")[0] for path in files} - {"current"}


def catalogue(count: int, changed: int = 0) -> list[Json]:
    """Return services with words, of which the last ones are changed."""
    return [
        service(
            f"s{number:04}",
            name=f"Service {number}",
            description=f"word{number % 97} {'new ' * (number >= count - changed)}common",
            enriched=number % 7 == 0,
        )
        for number in range(count)
    ]


needs_zstd = pytest.mark.skipif(not shutil.which("zstd"), reason="the program zstd is missing")


def test_the_lines_are_the_services_in_order_of_id_and_the_index_has_their_hashes(
    artifacts: Path, build: Build
) -> None:
    records = [service("b"), service("a~"), service("B", enriched=True), service("a.1", x=1.50)]
    assert build(records) == 0
    _, lines, index = (decompressed(path.read_bytes()).splitlines() for path in paths(artifacts))
    services = {each["id"]: each for each in listed(artifacts)}
    assert [json.loads(line) for line in lines] == [services[each] for each in sorted(services)]
    snapshot = open_snapshot(artifacts)
    assert lines == [snapshot.find(each) for each in sorted(services)]
    assert [json.loads(line) for line in index] == [
        {"id": json.loads(line)["id"], "hash": hashlib.sha256(line).hexdigest()} for line in lines
    ]


def test_an_empty_catalogue_has_no_lines(artifacts: Path, build: Build) -> None:
    empty = artifacts.with_name("empty.json")
    empty.write_text("[]")
    assert build(empty) == 0
    _, *lines_and_index = paths(artifacts)
    assert [decompressed(path.read_bytes()) for path in lines_and_index] == [b"", b""]


@needs_zstd
def test_the_extracted_archive_is_a_whole_snapshot(
    artifacts: Path, build: Build, tmp_path: Path
) -> None:
    assert build(catalogue(300), payments=[payment()]) == 0
    archive, *_ = paths(artifacts)
    copy = tmp_path / "copy"
    (copy / SNAPSHOTS).mkdir(parents=True)
    extract = ["tar", "--zstd", "-xf", str(archive), "-C", str(copy / SNAPSHOTS)]
    subprocess.run(extract, check=True)
    manifest = verify(copy / SNAPSHOTS / current(artifacts))
    assert manifest.files == read_manifest(folder(artifacts)).files
    assert main(["verify", str(copy)]) == 0
    extracted, original = open_snapshot(copy), open_snapshot(artifacts)
    assert extracted.search("word5 common").ids == original.search("word5 common").ids
    assert listed(copy) == listed(artifacts)
    with serve(copy) as client:
        ready = client.get("/readyz").json()
        assert (ready["snapshot"], ready["checked_at"]) == (manifest.id, ready["built_at"])
    source = write_lines(tmp_path / "next.jsonl", [service("next")])
    assert main(["build", source, "--out", str(copy), "--quiet", "--accept", source]) == 0
    assert main(["rollback", str(copy)]) == 0
    assert current(copy) == manifest.id


def test_the_archive_has_the_manifest_first_and_then_the_files_in_order(
    artifacts: Path, build: Build
) -> None:
    assert build([service()]) == 0
    snapshot_id = current(artifacts)
    content = decompressed(paths(artifacts)[0].read_bytes())
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        members = archive.getmembers()
    served = read_manifest(folder(artifacts)).files
    names = [MANIFEST, *sorted(served)]
    assert [member.name for member in members] == [f"{snapshot_id}/{name}" for name in names]
    assert {(member.mtime, member.uid, member.gid, member.mode) for member in members} == {
        (0, 0, 0, 0o644)
    }


def test_the_same_snapshot_gives_the_same_bytes(artifacts: Path, build: Build) -> None:
    assert build(catalogue(300)) == 0
    made = {path.name: path.read_bytes() for path in paths(artifacts)}
    shutil.rmtree(artifacts / DOWNLOADS)
    with stage(artifacts, None):
        make_downloads(artifacts, folder(artifacts), read_manifest(folder(artifacts)))
    assert {path.name: path.read_bytes() for path in paths(artifacts)} == made


def state_of(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns


def test_whole_downloads_stay_when_nothing_changed(artifacts: Path, build: Build) -> None:
    assert build([service("a"), service("b")]) == 0
    before = list(map(state_of, paths(artifacts)))
    assert build([service("a"), service("b")]) == 0
    assert build([service("b"), service("a")]) == 0
    assert list(map(state_of, paths(artifacts))) == before


def _remove(path: Path) -> None:
    path.unlink()


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callable[[], int]]:
    """Artifacts of two builds, and a function that repeats the second."""
    root = tmp_path_factory.mktemp("repeated")

    def build(*ids: str) -> int:
        source = write_lines(root / "services.jsonl", [service(each) for each in ids])
        options = ("--out", str(root / "artifacts"), "--quiet", "--no-semantic")
        return main(["build", source, *options])

    assert build("a") == 0
    assert build("a", "b") == 0
    return root / "artifacts", partial(build, "a", "b")


@pytest.mark.parametrize("damage", [_remove, _shorten, flip_a_bit])
@pytest.mark.parametrize(
    "name", ["{}.tar.zst", "{}.jsonl.zst", "{}.index.jsonl.zst", "{}.json", CURRENT_FILE]
)
def test_damaged_downloads_are_made_again(
    name: str, damage: Callable[[Path], None], repeated: tuple[Path, Callable[[], int]]
) -> None:
    artifacts, build = repeated
    before = [path.read_bytes() for path in paths(artifacts)]
    damage(artifacts / DOWNLOADS / name.format(current(artifacts)))
    assert build() == 0
    assert look_at_downloads(artifacts) == current(artifacts)
    assert [path.read_bytes() for path in paths(artifacts)] == before


def test_missing_downloads_are_made_when_nothing_changed(artifacts: Path, build: Build) -> None:
    assert build([service("a")], options=("--no-downloads",)) == 0
    assert not (artifacts / DOWNLOADS).exists()
    assert build([service("a")]) == 0
    assert look_at_downloads(artifacts) == current(artifacts)


def test_downloads_are_pruned_with_their_snapshots(artifacts: Path, build: Build) -> None:
    for number in range(4):
        assert build([service(f"s{number}")], options=("--keep", "2")) == 0
        assert copied(artifacts) == snapshots(artifacts)
    assert build([service("last")], options=("--keep", "2", "--no-downloads")) == 0
    assert copied(artifacts) == snapshots(artifacts) - {current(artifacts)}


def test_current_json_is_what_the_service_answers_but_for_the_time_of_the_check(
    artifacts: Path, build: Build
) -> None:
    checks = [""]
    for _ in range(2):  # in the second nothing changed
        assert build([service("a")], payments=[payment()]) == 0
        with serve(artifacts) as client:
            answer = client.get("/v1/snapshots/current").json()["snapshot"]
        offered = json.loads((artifacts / DOWNLOADS / CURRENT_FILE).read_bytes())["snapshot"]
        assert list(offered) == list(answer)
        checks += [offered.pop("checked_at"), answer.pop("checked_at")]
        assert offered == answer
    assert checks == sorted(checks)


@pytest.mark.parametrize("name", ["a", "b"])
def test_current_json_goes_where_the_published_snapshot_has_no_downloads(
    name: str, artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    shutil.rmtree(artifacts / DOWNLOADS) if name == "a" else None
    (artifacts / DOWNLOADS).mkdir(exist_ok=True)
    (artifacts / DOWNLOADS / CURRENT_FILE).touch()
    assert build([service(name)], options=("--no-downloads",)) == 0
    assert not (artifacts / DOWNLOADS / CURRENT_FILE).exists()


def test_a_build_that_cannot_write_downloads_publishes_nothing(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    before = current(artifacts)
    shutil.rmtree(artifacts / DOWNLOADS)
    (artifacts / DOWNLOADS).write_text("no folder")
    source = artifacts.with_name("other.jsonl")
    write_lines(source, [service("b")])
    outcome = run_indexer("build", source, "--out", artifacts)
    assert current(artifacts) == before
    assert outcome.returncode == 1
    assert "the files that others copy cannot be made" in outcome.stderr


@pytest.mark.parametrize("makes", [True, False])
def test_a_taken_down_service_is_at_no_door(makes: bool, artifacts: Path, build: Build) -> None:
    """The downloads of kept snapshots that lack the denial are removed."""
    records = [service(each, name=f"Name of {each}") for each in ("kept", "taken-down")]
    denied = ("--deny", "host:unknown.example")
    assert build(records, options=denied) == 0
    before = paths(artifacts)
    assert build([*records, service("new")], options=denied) == 0
    before += paths(artifacts)
    assert all(path.exists() for path in before), "a denial that both have removes nothing"
    options = (*denied, "--deny", "id:taken-down", *(() if makes else ("--no-downloads",)))
    assert build([*records, service("new")], options=options) == 0
    assert not any(path.exists() for path in before)
    assert copied(artifacts) == ({current(artifacts)} if makes else set())
    assert all(b"taken-down" not in path.read_bytes() for path in (artifacts / DOWNLOADS).iterdir())
    with serve(artifacts) as client:
        for path in before:
            assert client.get(f"/v1/snapshots/{path.name}").status_code == 404
            for pin in snapshots(artifacts) - {current(artifacts)}:
                answer = client.get("/v1/services/taken-down", params={"snapshot": pin})
                assert answer.status_code == 410
        assert client.get("/v1/services/taken-down").status_code == 404
        offered = client.get("/v1/snapshots/current").json()["snapshot"]["files"]
        assert len(offered) == (3 if makes else 0)
        for file in offered:
            content = decompressed(client.get(f"/v1/snapshots/{file['path']}").content)
            assert b"Name of taken-down" not in content
            assert b"kept" in content
