"""Publications as tests make them, and what services and replicas find of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from indexer.__main__ import main
from indexer.publishing import push
from service.artifacts.downloads import DOWNLOADS, SectionIndex, verify_downloads
from service.artifacts.downloads import POINTER as OWN_POINTER
from service.artifacts.pointer import decode_pointer
from service.errors import FollowingFailed, SnapshotDamaged, SnapshotMissing
from service.publishing.frames import decompress
from service.replicas.origin import POINTER, open_origin
from service.snapshot.manifest import Manifest, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS, read_current, read_history
from service.snapshot.snapshot import open_snapshot
from tests.support.artifacts import folder
from tests.support.crash import Tree, name_of
from tests.support.running import service, write_lines

ARTIFACTS, BUCKET = "artifacts", "bucket"
SERVICES = 5
DAMAGED = "the served snapshot is damaged"

_manifest = msgspec.json.Decoder(Manifest)
_sections = msgspec.json.Decoder(SectionIndex)


class Found(NamedTuple):
    """What a service finds in an artifacts folder, and the snapshot that replicas are told of."""

    id: str = ""
    checked_at: datetime | None = None
    history: tuple[str, ...] = ()
    pointed: str = ""


def look(artifacts: Path) -> Found | str:
    """Read an artifacts folder as services do; raises for what is not whole."""
    try:
        snapshot = open_snapshot(artifacts)
        verify(folder(artifacts))
    except SnapshotMissing:
        return Found()
    except SnapshotDamaged:
        return DAMAGED
    history = tuple(each.id for each in read_history(artifacts))
    pointed = ""
    if (artifacts / OWN_POINTER).exists():
        pointer = decode_pointer((artifacts / OWN_POINTER).read_bytes())
        manifest = read_manifest(artifacts / SNAPSHOTS / pointer.id)
        download = verify_downloads(artifacts / DOWNLOADS / pointer.id, manifest)
        assert pointer.manifest == download.manifest
        pointed = pointer.id
    return Found(snapshot.id, read_current(artifacts).checked_at, history, pointed)


def look_at_bucket(bucket: Path) -> str:
    """Read all that the pointer of a bucket names, as replicas do; return what it points to."""
    if not (bucket / POINTER).exists():
        return ""
    origin = open_origin(bucket.as_uri())
    pointer = decode_pointer(origin.pointer())
    for copy in pointer.kept:
        sections = origin.sections(copy.manifest)
        for path, file in _manifest.decode(origin.manifest(copy.manifest)).files.items():
            digest = hashlib.sha256()
            for section in sections[path]:
                packed = (bucket / f"sections/{section.sha256}.zst").read_bytes()
                for piece in decompress(packed, section.bytes):
                    digest.update(piece)
            assert digest.hexdigest() == file.sha256
    return pointer.id


def files_of_bucket(tree: Tree, contents: Path) -> Tree:
    """Return the files that the pointer of a bucket leads to."""

    def read(path: str) -> bytes:
        version = tree.get(path)
        return b"" if version is None else (contents / name_of(version)).read_bytes()

    names = [POINTER]
    with suppress(FollowingFailed, msgspec.MsgspecError):
        for copy in decode_pointer(read(POINTER)).kept:
            names += [f"manifests/{copy.manifest}.json", f"sections/{copy.manifest}.json"]
            files = _sections.decode(read(names[-1])).sections
            names += [f"sections/{each.sha256}.zst" for file in files.values() for each in file]
    return {name: tree[name] for name in names if name in tree}


class Publishing:
    """Publishes editions of a catalogue, and records one act."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root, self.contents = folder / "root", folder / "contents"
        self.root.mkdir()
        self.contents.mkdir()
        self.artifacts, self.bucket = self.root / ARTIFACTS, self.root / BUCKET

    def build(self, edition: str, *options: str) -> None:
        """Build an edition."""
        services = [service(f"s{n}", name=f"{n} {edition}") for n in range(SERVICES)]
        source = write_lines(self.folder / f"{edition}.jsonl", services)
        command = ["build", source, "--out", str(self.artifacts), "--jobs", "1", "--no-semantic"]
        assert main([*command, "--quiet", *options]) == 0

    def roll_back(self, *options: str) -> None:
        """Roll back."""
        assert main(["rollback", str(self.artifacts), *options]) == 0


@contextmanager
def removing_at_once() -> Iterator[None]:
    """Have a push remove what no copy needs, however young."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(push, "GARBAGE_AFTER", timedelta(0))
        yield
