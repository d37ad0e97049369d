"""Pushing the copy of a snapshot to a bucket, and removing objects that no kept copy needs.

The layout is that of `service.replicas.origin`. Objects are put before the manifest that names
them, and the manifest before the pointer. Two publishers may push at once: an object is deleted
only when it is older than GARBAGE_AFTER, and put again instead of reused from REFRESHED_AFTER on,
so that no publisher deletes an object that another has just reused.
Ages are told by the clock of the store, since the clocks of publishers may differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from indexer.publishing.bucket import INCOMING, ObjectBucket, StoredObject
from indexer.publishing.pushed import Pushed
from service.artifacts.downloads import PATCHES, SectionIndex, archive_name, read_download
from service.artifacts.pointer import Copy, pointer_file_decoder
from service.errors import PublishingFailed
from service.publishing.frames import Buffer
from service.snapshot.manifest import MANIFEST, File
from service.storage.memory_map import open_bytes

GARBAGE_AFTER = timedelta(days=1)
REFRESHED_AFTER = timedelta(hours=12)
UPLOADS = 8
"""Objects that are put at a time."""


T = TypeVar("T")


class _Kept(Struct):
    """The part of a pointer that every format has."""

    kept: list[Copy]


class _Files(Struct):
    """The part of a manifest that every format has."""

    files: dict[str, File]


_kept = msgspec.json.Decoder(_Kept)
_files = msgspec.json.Decoder(_Files)
_sections = msgspec.json.Decoder(SectionIndex)
_pointer = re.compile(r"pointer-[0-9]+\.json")
_ours = re.compile(
    r"(?:objects|sections)/[0-9a-f]{64}\.(?:json|zst)|manifests/[0-9a-f]{64}\.json|"
    r"patches/(?P<base>[0-9a-f]{20})-(?P<target>[0-9a-f]{20})\.(?:json|zst)|"
    rf"{INCOMING}/[0-9a-f]{{32}}"
)


def put_copy(bucket: ObjectBucket, downloads: Path, now: datetime) -> Pushed:
    """Put the sections, patches and manifest of a snapshot that the bucket lacks."""
    download = read_download(downloads)
    archive = memoryview(open_bytes(downloads / archive_name(download.id)))
    contents: dict[str, Buffer] = {}
    for path in download.section_index.sections:
        for section in download.sections[path]:
            start, stop = section.frame.offset, section.frame.offset + section.frame.bytes
            contents[f"sections/{section.content.sha256}.zst"] = archive[start:stop]
    contents[f"sections/{download.manifest}.json"] = msgspec.json.encode(download.section_index)
    if download.base:
        name = f"patches/{download.base}-{download.id}"
        contents[f"{name}.zst"] = open_bytes(downloads / PATCHES)
        contents[f"{name}.json"] = msgspec.json.encode(download.patch_index)
    stored = bucket.objects()
    manifest = f"manifests/{download.manifest}.json"
    pushed = Pushed(bucket.name, 0, 0, 0, 0)
    for group in (contents, {manifest: (downloads / MANIFEST).read_bytes()}):
        missing = [
            (key, content)
            for key, content in group.items()
            if not _is_fresh(stored.get(key), len(content), now)
        ]
        with ThreadPoolExecutor(UPLOADS) as pool:
            list(pool.map(bucket.put, *zip(*missing, strict=True)) if missing else ())
        pushed.put += len(missing)
        pushed.bytes += sum(len(content) for _, content in missing)
        pushed.reused += len(group) - len(missing)
    return pushed


def collect_garbage(bucket: ObjectBucket, now: datetime) -> int:
    """Remove old objects that no kept manifest names, of any format; return their number."""
    stored = bucket.objects()
    kept: set[Copy] = set()
    for key in filter(_pointer.fullmatch, stored):
        kept.update(_read(bucket, key, _decode_kept) or ())
    ids = {copy.id for copy in kept}
    named: set[str] = set()
    for digest in sorted(copy.manifest for copy in kept):
        manifest, sections = f"manifests/{digest}.json", f"sections/{digest}.json"
        named |= {manifest, sections}
        # Releases before format 12 keep whole files.
        if files := _read(bucket, manifest, _files.decode):
            named.update(f"objects/{file.sha256}.zst" for file in files.files.values())
        if index := _read(bucket, sections, _sections.decode):
            named.update(
                f"sections/{section.sha256}.zst"
                for file in index.sections.values()
                for section in file
            )
    garbage = [
        key
        for key, each in stored.items()
        if key not in named
        and (match := _ours.fullmatch(key))
        and not {match["base"], match["target"]} <= ids
        and now - each.put_at > GARBAGE_AFTER
    ]
    if garbage:
        bucket.delete(garbage)
    return len(garbage)


def _is_fresh(stored: StoredObject | None, size: int, now: datetime) -> bool:
    return stored is not None and stored.bytes == size and now - stored.put_at < REFRESHED_AFTER


def _decode_kept(content: bytes) -> list[Copy]:
    return _kept.decode(pointer_file_decoder.decode(content).pointer).kept


def _read(bucket: ObjectBucket, key: str, decode: Callable[[bytes], T]) -> T | None:
    """Return a document of the bucket, None if somebody removed it."""
    content = bucket.get(key)
    try:
        return None if content is None else decode(content)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise PublishingFailed(
            f"{bucket.name}: the snapshot is published, but {key} cannot be read, so that nothing "
            "old is removed; remove the pointer that names it, and build again"
        ) from error
