"""Fetching files by their sections, from a folder that holds what an origin publishes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from service.errors import FollowingFailed
from service.publishing import frames
from service.publishing.frames import compress, cut
from service.replicas.fetching import INCOMING, Fetch
from service.replicas.origin import open_origin
from service.schema.status import Counts
from service.snapshot.manifest import FORMAT, MANIFEST, File, Manifest, copy_manifest
from service.storage.container import Array, Layout, arrays_path, write_arrays

LAYOUT = Layout("Arrays.", one=Array("<i4", "a"), two=Array("<i4", "a"), three=Array("|u1", "b"))
NUMBERS = np.arange(100, dtype="<i4")
OLD, NEW = "0" * 20, "1" * 20


@pytest.fixture(autouse=True)
def small_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "SMALL", 64)


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    for name in ("sections", "patches"):
        (tmp_path / "bucket" / name).mkdir(parents=True)
    return tmp_path / "bucket"


def container(folder: Path, two: int = 0, three: bytes = b"end") -> bytes:
    """Return the content of a container, whose second array is made of a number."""
    content = {"one": NUMBERS, "two": NUMBERS * two, "three": np.frombuffer(three, "|u1")}
    write_arrays(folder / "made", LAYOUT, content)
    return arrays_path(folder / "made").read_bytes()


def file_of(content: bytes | memoryview) -> File:
    return File(len(content), hashlib.sha256(content).hexdigest())


def describe(snapshot_id: str, files: dict[str, bytes]) -> Manifest:
    described = {path: file_of(content) for path, content in files.items()}
    return Manifest(FORMAT, snapshot_id, datetime.now(UTC), Counts(1, 1, 1, 0), [], described)


def digest_of(manifest: Manifest) -> str:
    return hashlib.sha256(copy_manifest(manifest)).hexdigest()


def publish(bucket: Path, files: dict[str, bytes]) -> Manifest:
    """Put the sections of files into the folder, and the list of them."""
    manifest = describe(NEW, files)
    listed = {path: [content[a:b] for a, b in cut(content)] for path, content in files.items()}
    for section in (each for sections in listed.values() for each in sections):
        (bucket / f"sections/{file_of(section).sha256}.zst").write_bytes(compress(section))
    put_list(bucket, manifest, {path: [*map(file_of, each)] for path, each in listed.items()})
    return manifest


def put_list(bucket: Path, manifest: Manifest, sections: Any) -> None:
    place = bucket / f"sections/{digest_of(manifest)}.json"
    place.write_bytes(msgspec.json.encode({"sections": sections}))


def keep(artifacts: Path, files: dict[str, bytes]) -> None:
    """Put a snapshot into an artifacts folder, as if it had been served."""
    folder = artifacts / "snapshots" / OLD
    folder.mkdir(parents=True)
    for path, content in files.items():
        (folder / path).write_bytes(content)
    (folder / MANIFEST).write_bytes(msgspec.json.encode(describe(OLD, files)))


def fetch(artifacts: Path, bucket: Path, manifest: Manifest) -> dict[str, bytes]:
    """Fetch a snapshot, and return its files."""
    (artifacts / "snapshots").mkdir(parents=True, exist_ok=True)
    target = artifacts / "fetched"
    target.mkdir()
    origin = open_origin(f"file://{bucket}")
    Fetch(artifacts, origin, manifest, digest_of(manifest)).run(target)
    return {path.name: path.read_bytes() for path in target.iterdir()}


def test_a_file_is_made_of_its_sections(bucket: Path, artifacts: Path, tmp_path: Path) -> None:
    files = {"a.arrays": container(tmp_path, 2), "b.json": b"[]", "c": b""}
    manifest = publish(bucket, files)
    assert len(cut(files["a.arrays"])) == 3
    assert fetch(artifacts, bucket, manifest) == files
    left = {path.name for path in (artifacts / INCOMING).iterdir()}
    assert left == {file.sha256 for file in manifest.files.values()}


def test_sections_that_a_kept_snapshot_has_are_not_fetched(
    bucket: Path, artifacts: Path, tmp_path: Path
) -> None:
    old, new = container(tmp_path, 2), container(tmp_path, 3)
    manifest = publish(bucket, {"a.arrays": new})
    keep(artifacts, {"a.arrays": old})
    known = {file_of(old[start:stop]).sha256 for start, stop in cut(old)}
    shared = [path for path in (bucket / "sections").glob("*.zst") if path.stem in known]
    assert shared
    for path in shared:
        path.unlink()
    assert fetch(artifacts, bucket, manifest) == {"a.arrays": new}


def test_a_damaged_section_of_a_kept_snapshot_is_fetched(
    bucket: Path, artifacts: Path, tmp_path: Path
) -> None:
    old, new = container(tmp_path, 2), container(tmp_path, 3)
    keep(artifacts, {"a.arrays": old})
    damaged = bytearray(old)
    damaged[cut(old)[0][1] - 1] ^= 1
    (artifacts / "snapshots" / OLD / "a.arrays").write_bytes(damaged)
    assert fetch(artifacts, bucket, publish(bucket, {"a.arrays": new})) == {"a.arrays": new}


def test_a_section_may_be_in_several_files_and_be_a_file(
    bucket: Path, artifacts: Path, tmp_path: Path
) -> None:
    one, two = container(tmp_path, 2), container(tmp_path, 3)
    start, stop = cut(one)[1]
    files = {"a.arrays": one, "b.arrays": two, "c": one[start:stop]}
    assert fetch(artifacts, bucket, publish(bucket, files)) == files


Change = Callable[[list[dict[str, Any]]], object]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda sections: sections.clear(), id="none"),
        pytest.param(lambda sections: sections.pop(), id="too few"),
        pytest.param(lambda sections: sections.append(sections[0]), id="too many"),
        pytest.param(lambda sections: sections[0].update(sha256="../../escaped"), id="a path"),
        pytest.param(
            lambda sections: sections.extend([{"bytes": 0, "sha256": "0" * 64}] * 300),
            id="hundreds",
        ),
        pytest.param(
            lambda sections: (
                sections[0].update(bytes=-1),
                sections[1].update(bytes=sections[1]["bytes"] + sections[0]["bytes"] + 1),
            ),
            id="a negative size",
        ),
        pytest.param(lambda sections: sections.reverse(), id="another order"),
    ],
)
def test_a_list_of_sections_that_is_none_of_the_file_is_refused(
    change: Change, bucket: Path, artifacts: Path, tmp_path: Path
) -> None:
    content = container(tmp_path, 2)
    manifest = publish(bucket, {"a.arrays": content})
    sections = [msgspec.to_builtins(file_of(content[start:stop])) for start, stop in cut(content)]
    change(sections)
    put_list(bucket, manifest, {"a.arrays": sections})
    with pytest.raises(FollowingFailed) as caught:
        fetch(artifacts, bucket, manifest)
    assert caught.value.code == "file_refused"


def test_a_copy_without_a_list_of_sections_is_missing_files(
    bucket: Path, artifacts: Path, tmp_path: Path
) -> None:
    manifest = describe(NEW, {"a.arrays": container(tmp_path)})
    with pytest.raises(FollowingFailed) as caught:
        fetch(artifacts, bucket, manifest)
    assert caught.value.code == "file_missing"
