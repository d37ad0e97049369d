"""Downloads: the archives of each published snapshot, and patches from the one before."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from indexer.__main__ import main
from service.artifacts.downloads import (
    DOWNLOADS,
    INDEX,
    PATCHES,
    POINTER,
    Download,
    Downloads,
    archive_name,
    lines_name,
    read_download,
    read_downloads,
    verify_downloads,
)
from service.publishing import downloads as making
from service.artifacts.publishing import stage
from service.publishing.downloads import make_downloads
from service.publishing.frames import cut
from service.publishing.patches import MEMORY, apply_patch
from service.snapshot.manifest import MANIFEST, copy_manifest, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import current, decompressed, flip_a_bit, folder, listed, snapshots
from tests.support.running import (
    Build,
    Json,
    payment,
    run_indexer,
    serve,
    service,
    write_lines,
)
from tests.support.sources.x402 import resource


def downloads(artifacts: Path) -> Path:
    """Return the folder of the downloads of the published snapshot."""
    return artifacts / DOWNLOADS / current(artifacts)


def content_of(path: Path) -> bytes:
    """Return the content of a file of several frames, by the program `zstd`."""
    command = ["zstd", "--decompress", "--stdout", str(path)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def lines_of(artifacts: Path) -> bytes:
    return content_of(downloads(artifacts) / lines_name(current(artifacts)))


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


@needs_zstd
def test_the_lines_are_the_services_in_order_of_id(artifacts: Path, build: Build) -> None:
    records = [service("b"), service("a~"), service("B", enriched=True), service("a.1", x=1.50)]
    assert build(records) == 0
    lines = lines_of(artifacts).splitlines()
    services = {each["id"]: each for each in listed(artifacts)}
    assert [json.loads(line) for line in lines] == [services[each] for each in sorted(services)]
    snapshot = open_snapshot(artifacts)
    assert lines == [snapshot.find(each) for each in sorted(services)]
    index = read_download(downloads(artifacts))
    assert index.services == 4
    assert index.jsonl_bytes == len(lines_of(artifacts))


@needs_zstd
def test_an_empty_catalogue_has_no_lines(artifacts: Path, build: Build) -> None:
    empty = artifacts.with_name("empty.json")
    empty.write_text("[]")
    assert build(empty) == 0
    assert lines_of(artifacts) == b""


@needs_zstd
def test_the_extracted_archive_is_a_whole_snapshot(
    artifacts: Path, build: Build, tmp_path: Path
) -> None:
    assert build(catalogue(300), payments=[payment()]) == 0
    archive = downloads(artifacts) / archive_name(current(artifacts))
    copy = tmp_path / "copy"
    (copy / SNAPSHOTS).mkdir(parents=True)
    extract = ["tar", "--zstd", "-xf", str(archive), "-C", str(copy / SNAPSHOTS)]
    subprocess.run(extract, check=True)
    manifest = verify(copy / SNAPSHOTS / current(artifacts))
    assert manifest.files == read_manifest(folder(artifacts)).files
    assert main(["verify", str(copy)]) == 0
    copied, original = open_snapshot(copy), open_snapshot(artifacts)
    assert copied.search("word5 common").ids == original.search("word5 common").ids
    assert listed(copy) == listed(artifacts)
    with serve(copy) as client:
        ready = client.get("/readyz").json()
        assert (ready["snapshot"], ready["checked_at"]) == (manifest.id, ready["built_at"])
    source = write_lines(tmp_path / "next.jsonl", [service("next")])
    assert main(["build", source, "--out", str(copy), "--quiet", "--max-removed", "100%"]) == 0
    assert main(["rollback", str(copy)]) == 0
    assert current(copy) == manifest.id


@needs_zstd
def test_the_archive_has_the_manifest_first_and_then_the_files_in_order(
    artifacts: Path, build: Build
) -> None:
    assert build([service()]) == 0
    snapshot_id = current(artifacts)
    content = content_of(downloads(artifacts) / archive_name(snapshot_id))
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        members = archive.getmembers()
    served = read_manifest(folder(artifacts)).files
    names = [MANIFEST, *sorted(served)]
    assert [member.name for member in members] == [f"{snapshot_id}/{name}" for name in names]
    assert {(member.mtime, member.uid, member.gid, member.mode) for member in members} == {
        (0, 0, 0, 0o644)
    }


def test_each_section_of_a_file_is_one_frame_of_the_archive(artifacts: Path, build: Build) -> None:
    assert build(catalogue(50)) == 0
    index = read_download(downloads(artifacts))
    archive = (downloads(artifacts) / archive_name(index.id)).read_bytes()
    manifest = read_manifest(folder(artifacts))
    assert index.sections.keys() == {MANIFEST, *manifest.files}
    for path, sections in index.sections.items():
        source = downloads(artifacts) if path == MANIFEST else folder(artifacts)
        content = (source / path).read_bytes()
        assert len(sections) == len(cut(content))
        for section, (start, stop) in zip(sections, cut(content), strict=True):
            frame = section.frame
            packed = archive[frame.offset : frame.offset + frame.bytes]
            assert hashlib.sha256(packed).hexdigest() == frame.sha256
            assert decompressed(packed) == content[start:stop]
            digest = hashlib.sha256(content[start:stop]).hexdigest()
            assert (section.content.sha256, section.content.bytes) == (digest, stop - start)
    assert (downloads(artifacts) / MANIFEST).read_bytes() == copy_manifest(manifest)
    assert [each.content.sha256 for each in index.sections[MANIFEST]] == [index.manifest]


def check_patches(artifacts: Path, base: str, tmp_path: Path) -> Download:
    """Check that all patches make the files of the published snapshot; returns their index."""
    index = read_download(downloads(artifacts))
    frames = (downloads(artifacts) / PATCHES).read_bytes()
    files = read_manifest(folder(artifacts)).files
    assert index.base == base
    for path, pieces in index.patches.items():
        made = tmp_path / "made"
        apply_patch(artifacts / SNAPSHOTS / base / path, pieces, frames, made, files[path].bytes)
        assert made.read_bytes() == (folder(artifacts) / path).read_bytes()
    return index


def test_patches_make_the_files_that_changed(artifacts: Path, build: Build, tmp_path: Path) -> None:
    assert build(catalogue(2000), payments=[payment()]) == 0
    first = read_download(downloads(artifacts))
    assert (first.base, first.patches) == ("", {})
    assert build(catalogue(2000, changed=20), payments=[payment()]) == 0
    index = check_patches(artifacts, first.id, tmp_path)
    before = read_manifest(artifacts / SNAPSHOTS / first.id).files
    changed = {
        path
        for path, file in read_manifest(folder(artifacts)).files.items()
        if before[path].sha256 != file.sha256
    }
    assert index.patches.keys() == changed
    assert index.patch_file.bytes < 0.3 * index.archives[archive_name(index.id)].bytes


def test_patches_as_large_as_the_archive_are_left_out(artifacts: Path, build: Build) -> None:
    rng = np.random.default_rng(1)
    for _ in range(2):
        records = [service(f"s{n}", iconUrl=rng.bytes(8000).hex()) for n in range(100)]
        assert build(records, options=("--no-endpoints", "--no-semantic")) == 0
    index = read_download(downloads(artifacts))
    assert (index.base, index.patches, index.patch_file.bytes) == ("", {}, 0)
    verify_downloads(downloads(artifacts), read_manifest(folder(artifacts)))


def test_patches_follow_services_that_come_go_and_move(
    artifacts: Path, build: Build, tmp_path: Path
) -> None:
    resources = [resource(f"https://api{n}.example/{n % 3}") for n in range(40)]
    assert build(catalogue(200), resources) == 0
    first = current(artifacts)
    fewer = [each for each in catalogue(220, changed=9) if each["id"][-1] != "4"]
    assert build(fewer, resources[5:], options=("--max-removed", "100%")) == 0
    check_patches(artifacts, first, tmp_path)
    second = current(artifacts)
    assert (
        build([service()], options=("--no-endpoints", "--no-semantic", "--max-removed", "100%"))
        == 0
    )
    check_patches(artifacts, second, tmp_path)


def test_frames_of_unchanged_files_are_copied(artifacts: Path, build: Build) -> None:
    assert build(catalogue(20)) == 0
    first = read_download(downloads(artifacts))
    encoder = "encoder.arrays"
    archive = downloads(artifacts) / archive_name(first.id)
    content = bytearray(archive.read_bytes())
    frame = max((each.frame for each in first.sections[encoder]), key=lambda each: each.bytes)
    content[frame.offset + frame.bytes // 2] ^= 1
    archive.write_bytes(content)
    assert build(catalogue(20, changed=1)) == 0
    second = read_download(downloads(artifacts))
    manifest = read_manifest(folder(artifacts))
    for path in ("ids.arrays", encoder):  # the damaged frame is made again
        hashes = [[each.frame.sha256 for each in of.sections[path]] for of in (first, second)]
        assert hashes[0] == hashes[1]
    verify_downloads(downloads(artifacts), manifest)


def test_the_same_snapshot_gives_the_same_bytes(artifacts: Path, build: Build) -> None:
    assert build(catalogue(300)) == 0
    assert build(catalogue(300, changed=3)) == 0
    (downloads(artifacts) / POINTER).unlink()  # of a publication, and not of the snapshot
    made = {path.name: path.read_bytes() for path in downloads(artifacts).iterdir()}
    first = min(snapshots(artifacts) - {current(artifacts)})
    for threads, memory in ((1, 0), (3, 2**30), (2, MEMORY)):
        shutil.rmtree(downloads(artifacts))
        with stage(artifacts, None):
            built = folder(artifacts)
            manifest = read_manifest(built)
            make_downloads(artifacts, built, manifest, first, threads, memory)
        assert {path.name: path.read_bytes() for path in downloads(artifacts).iterdir()} == made


@pytest.mark.parametrize(("memory", "threads"), [(0, 1), (2 * MEMORY, 2)])
def test_patches_are_made_in_as_many_threads_as_fit_into_the_memory(
    memory: int, threads: int, artifacts: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Executor(ThreadPoolExecutor):
        def __init__(self, workers: int) -> None:
            started.append(workers)
            super().__init__(workers)

    assert build([service("a")], options=("--no-downloads",)) == 0
    monkeypatch.setattr(making, "ThreadPoolExecutor", Executor)
    with stage(artifacts, None):
        manifest = read_manifest(folder(artifacts))
        make_downloads(artifacts, folder(artifacts), manifest, "", 8, memory)
    assert started == [threads]


def state_of(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns


def test_whole_downloads_stay_when_nothing_changed(artifacts: Path, build: Build) -> None:
    assert build([service("a"), service("b")]) == 0
    before = state_of(downloads(artifacts))
    assert build([service("a"), service("b")]) == 0
    assert build([service("b"), service("a")]) == 0
    assert state_of(downloads(artifacts)) == before


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
        return main(["build", source, "--out", str(root / "artifacts"), "--quiet"])

    assert build("a") == 0
    assert build("a", "b") == 0
    return root / "artifacts", partial(build, "a", "b")


@pytest.mark.parametrize("damage", [_remove, _shorten, flip_a_bit])
@pytest.mark.parametrize("name", ["{}.tar.zst", "{}.jsonl.zst", PATCHES, MANIFEST, INDEX])
def test_damaged_downloads_are_made_again(
    name: str, damage: Callable[[Path], None], repeated: tuple[Path, Callable[[], int]]
) -> None:
    artifacts, build = repeated
    verify_downloads(downloads(artifacts), read_manifest(folder(artifacts)))
    path = downloads(artifacts) / name.format(current(artifacts))
    damage(path)
    assert build() == 0
    verify_downloads(downloads(artifacts), read_manifest(folder(artifacts)))


def test_missing_downloads_are_made_when_nothing_changed(artifacts: Path, build: Build) -> None:
    assert build([service("a")], options=("--no-downloads",)) == 0
    assert not (artifacts / DOWNLOADS).exists()
    assert build([service("a")]) == 0
    verify_downloads(downloads(artifacts), read_manifest(folder(artifacts)))


def test_downloads_that_a_killed_build_did_not_make_are_made_with_their_patches(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    base = current(artifacts)
    assert build([service("a"), service("b")], options=("--no-downloads",)) == 0
    assert build([service("a"), service("b")]) == 0
    index = read_download(downloads(artifacts))
    assert (index.base, index.patches.keys() >= {"records.json"}) == (base, True)


def test_downloads_are_pruned_with_their_snapshots(artifacts: Path, build: Build) -> None:
    for number in range(4):
        assert build([service(f"s{number}")], options=("--keep", "2")) == 0
        present = {path.name for path in (artifacts / DOWNLOADS).iterdir()}
        assert present == snapshots(artifacts)
    assert build([service("last")], options=("--keep", "2", "--no-downloads")) == 0
    present = {path.name for path in (artifacts / DOWNLOADS).iterdir()}
    assert present == snapshots(artifacts) - {current(artifacts)}


def test_a_snapshot_of_another_format_is_no_base(artifacts: Path, build: Build) -> None:
    assert build([service("a")]) == 0
    path = folder(artifacts) / MANIFEST
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps(manifest | {"format": 1}))
    assert build([service("b")]) == 0
    assert read_download(downloads(artifacts)).base == ""


def test_a_build_that_cannot_write_downloads_says_that_its_snapshot_is_served(
    artifacts: Path, build: Build
) -> None:
    assert build([service("a")]) == 0
    before = current(artifacts)
    shutil.rmtree(artifacts / DOWNLOADS)
    (artifacts / DOWNLOADS).write_text("no folder")
    source = artifacts.with_name("other.jsonl")
    write_lines(source, [service("b")])
    outcome = run_indexer("build", source, "--out", artifacts)
    after = current(artifacts)
    assert after != before
    assert outcome.returncode == 1
    assert f"{after} is served, but its downloads cannot be made" in outcome.stderr


def test_downloads_are_found_by_their_names(artifacts: Path, build: Build) -> None:
    def listed() -> Downloads:
        return read_downloads(artifacts)

    assert listed().download("0" * 20) is None
    assert build([service("a")]) == 0
    first = current(artifacts)
    assert listed().download(first) == read_download(downloads(artifacts))
    assert build([service("a"), service("b")]) == 0
    second, found = current(artifacts), listed()
    assert found.patches(first, second)
    assert found.patches(second, first) is None
    assert found.patches("", first) is None
    for snapshot_id in (first, second):
        index = found.download(snapshot_id)
        assert index is not None
        described = found.manifest(index.manifest)
        assert described is not None
        assert described[0] == index
        digest = hashlib.sha256(described[1].path.read_bytes()).hexdigest()
        assert digest == described[1].sha256 == index.manifest
        for path, file in read_manifest(artifacts / SNAPSHOTS / snapshot_id).files.items():
            parts = [found.section(each.content.sha256) for each in index.sections[path]]
            made = b"".join(
                decompressed(part.path.read_bytes()[part.offset : part.offset + part.bytes])
                for part in parts
                if part
            )
            assert hashlib.sha256(made).hexdigest() == file.sha256
    assert found.archive(second, INDEX) is None
    damaged_index = downloads(artifacts) / INDEX
    index_text = damaged_index.read_text()
    for damaged in ("{}", index_text.replace("records.json", "other"), index_text[:-9]):
        damaged_index.write_text(damaged)
        assert listed().download(second) is None
        assert listed().download(first)
