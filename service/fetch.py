"""`ratecard fetch`: a verified copy of the snapshot that another Ratecard, or a folder, offers."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx
import msgspec
import stamina
from msgspec.structs import replace
from stamina.instrumentation import set_on_retry_hooks

from service.arrays.files import link, sha256, zstd
from service.artifacts.downloads import add_downloads, name_current, names_of, read_downloads
from service.artifacts.publishing import (
    INCOMING,
    KEPT,
    publish,
    remove_obsolete,
    stage,
    write_current,
)
from service.cli import Parser
from service.errors import REBUILD, PublishingFailed, SnapshotUnavailable
from service.schema.status import SnapshotDescription, SnapshotEnvelope, SnapshotFile
from service.schema.values import EPOCH
from service.snapshot.manifest import MANIFEST, Manifest, read_manifest, verify
from service.snapshot.publication import SNAPSHOTS, Publication, is_snapshot_id, read_current

CURRENT = "v1/snapshots/current"
ATTEMPTS = 5
TIMEOUT = 30  # seconds without a byte
LONGEST = 600
"""Seconds for a response; a download that takes longer is continued by another request."""
MAX_EVERY = 10**6  # seconds
BUFFER = 2**15  # bytes: tarfile copies what is left of a buffer with each read
MAX_DESCRIPTION = 2**20  # bytes
MAX_MANIFEST = 2**24  # bytes
MAX_RATIO = 200
"""Bytes of a snapshot for each byte of its archive: real ones have 3 to 30, bombs over 1,000."""
MAX_MESSAGE = 300  # characters
ROOM = 2**26  # bytes that are free after a copy

TRANSIENT_STATUSES = (408, 425, 429)

_ssl_context = cache(httpx.create_ssl_context)  # takes 30 ms, and each look needs it
_envelope = msgspec.json.Decoder(SnapshotEnvelope)
_credentials = re.compile(r"(?<=://)[^/]*@|\?[^\s\"')>]*")


class FetchFailed(PublishingFailed):
    """A copy could not be made; what was served before stays."""


class FetchTransient(FetchFailed):
    """A copy could not be made now: another attempt may succeed."""


_retried = stamina.retry(on=FetchTransient, attempts=ATTEMPTS, timeout=None)
"""Decorates what is tried again after a transient error, with exponential back-off."""


def fetch(url: str, artifacts: Path, keep: int = KEPT, *, is_verified: bool = False) -> str:
    """Publish the snapshot that an origin offers; returns its id, empty if it is served here.

    `url` is that of a Ratecard, or of a `current.json` beside its downloads. A download that was
    cut is continued. Every file is compared with its hash, and the id with the hashes, before the
    snapshot is published. A copy that is damaged is replaced, unless it `is_verified` already.
    Raises FetchFailed, PublishingFailed, SnapshotUnavailable or OSError.
    """
    address = _address_of(url)
    with httpx.Client(verify=_ssl_context(), timeout=TIMEOUT, follow_redirects=True) as client:
        described = _describe(client, address)
        checked_at = min(datetime.fromisoformat(described.checked_at), datetime.now(UTC))
        served = _read_served(artifacts)
        is_served = served.id == described.id
        if is_served and is_verified and served.checked_at >= checked_at:
            return ""
        with stage(artifacts, keep) as staging:
            remove_obsolete(artifacts)
            manifest = _find_kept(artifacts, described)
            if manifest is None:
                manifest = _copy(client, address, described, artifacts, staging)
                publish(artifacts, staging / described.id, manifest, checked_at)
                name_current(artifacts, manifest, checked_at)
                is_served = False
            else:
                name_current(artifacts, manifest, checked_at)
                write_current(artifacts, described.id, checked_at)
            shutil.rmtree(artifacts / INCOMING, ignore_errors=True)  # the next copy tidies it, too
    return "" if is_served else described.id


def main(arguments: list[str], prog: str = "python -m service.fetch") -> int:
    """Fetch once, or again and again; returns the exit status."""
    options = _parse(arguments, prog)
    set_on_retry_hooks(())  # by default stamina logs a line without a cause on standard error
    failure, is_verified = "", False
    with suppress(KeyboardInterrupt):
        while True:
            try:
                fetched = fetch(
                    options.url, options.artifacts, options.keep, is_verified=is_verified
                )
                failure, is_verified = "", True
                if fetched or options.every is None:
                    print(f"published {fetched}" if fetched else "nothing new", flush=True)
            except (PublishingFailed, SnapshotUnavailable, OSError) as error:
                if failure != (failure := _one_line(error)):
                    print(f"error: {failure}; what was served before stays", file=sys.stderr)
            if options.every is None:
                return 1 if failure else 0
            time.sleep(options.every)
    return 130


def _address_of(url: str) -> str:
    """Return the address of a description; raises FetchFailed, with nothing of a wrong URL."""
    try:
        parts = urlsplit(url)
        is_usable = httpx.URL(url).scheme in ("http", "https") and bool(parts.hostname)
    except (httpx.InvalidURL, ValueError):
        is_usable = False
    if not is_usable:
        raise FetchFailed(
            "the URL is none of http:// or https:// with a host; write the special characters of "
            "a password as %XX"
        )
    if parts.path.endswith(".json"):
        return url
    return parts._replace(path=f"{parts.path.rstrip('/')}/{CURRENT}").geturl()


def _read_served(artifacts: Path) -> Publication:
    with suppress(SnapshotUnavailable):
        return read_current(artifacts)
    return Publication("", EPOCH)


def _find_kept(artifacts: Path, described: SnapshotDescription) -> Manifest | None:
    """Return a snapshot that is here, whole and with its downloads: the origin rolled back."""
    with suppress(SnapshotUnavailable):
        manifest = verify(artifacts / SNAPSHOTS / described.id)
        if not described.files or read_downloads(artifacts, described.id):
            return manifest
    return None


def _copy(
    client: httpx.Client,
    address: str,
    described: SnapshotDescription,
    artifacts: Path,
    staging: Path,
) -> Manifest:
    """Download the files of a snapshot, and extract it to the staging folder.

    The downloads also stay in `incoming` until the snapshot is published, so that nothing is
    transferred again after a crash.
    """
    files, incoming = _check_files(described), artifacts / INCOMING
    incoming.mkdir(exist_ok=True)
    for path in incoming.iterdir():
        if path.name not in {file.sha256 for file in files}:
            path.unlink()  # of a snapshot that the origin has replaced
    download = partial(_download, client, address, incoming)
    download(files[0])
    with ThreadPoolExecutor(1) as pool:  # downloads the others while the archive is extracted
        others = pool.map(download, files[1:])
        manifest = _extract(incoming / files[0].sha256, staging, described.id)
        list(others)  # raises what a download raised
    for file in files:
        link(incoming / file.sha256, staging / file.path)
    add_downloads(artifacts, described.id, staging, files)
    return replace(manifest, inputs=None)


@_retried
def _describe(client: httpx.Client, address: str) -> SnapshotDescription:
    """Ask an origin for its snapshot."""
    with _get(client, address, "give a Ratecard or a `current.json`") as response:
        body = b""
        for chunk in _read(response, address):
            body += chunk
            if len(body) > MAX_DESCRIPTION:
                raise FetchFailed(f"{address}: is longer than {MAX_DESCRIPTION:,} bytes")
    try:
        described = _envelope.decode(body).snapshot
        is_dated = datetime.fromisoformat(described.checked_at).tzinfo is not None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise FetchFailed(f"{address}: describes no snapshot: {error}") from error
    if not is_snapshot_id(described.id) or not is_dated:
        raise FetchFailed(f"{address}: describes no snapshot: its id or its time is none")
    return described


def _check_files(described: SnapshotDescription) -> list[SnapshotFile]:
    """Return the files to download, the archive first; raises FetchFailed."""
    if not described.files:
        raise FetchFailed(
            f"the origin has no downloads of {described.id}; build there without --no-downloads"
        )
    names = [file.path for file in described.files]
    are_hashed = all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in described.files)
    if names != names_of(described.id) or not are_hashed:
        raise FetchFailed(f"the origin names other files than those of {described.id}")
    return described.files


@_retried
def _download(client: httpx.Client, address: str, folder: Path, file: SnapshotFile) -> None:
    """Complete a file by what is missing, and compare it with its hash.

    address: of the description, beside which the file is, with the same query
    """
    parts = urlsplit(address)
    url = parts._replace(path=f"{parts.path.rpartition('/')[0]}/{file.path}").geturl()
    path = folder / file.sha256
    size = path.stat().st_size if path.exists() else 0
    if size != file.bytes:
        start = size if size < file.bytes else 0
        _check_room(folder, file.bytes - start)
        advice = "if the origin has published since, run this again"
        with _get(client, url, advice, start) as response, path.open("ab") as target:
            if response.status_code != httpx.codes.PARTIAL_CONTENT:
                target.truncate(0)
            for chunk in _read(response, url):  # written as they come: a cut loses none
                target.write(chunk)
                if target.tell() > file.bytes:
                    break
    if path.stat().st_size < file.bytes:
        raise FetchTransient(f"{url}: ends after {path.stat().st_size:,} of {file.bytes:,} bytes")
    if sha256(path) != file.sha256:
        path.unlink()
        kind = FetchTransient if size else FetchFailed
        raise kind(f"{url}: has another hash than its description says")


@contextmanager
def _get(client: httpx.Client, url: str, advice: str, start: int = 0) -> Iterator[httpx.Response]:
    """Request a URL, from a byte on; raises FetchTransient, or FetchFailed with an advice."""
    headers = {"accept-encoding": "identity"}
    if start:
        headers["range"] = f"bytes={start}-"
    try:
        with client.stream("GET", url, headers=headers) as response:
            status = response.status_code
            if status >= httpx.codes.INTERNAL_SERVER_ERROR or status in TRANSIENT_STATUSES:
                raise FetchTransient(f"{url}: answers {status}")
            if not response.is_success:
                raise FetchFailed(f"{url}: answers {status}; {advice}")
            yield response
    except httpx.UnsupportedProtocol as error:
        raise FetchFailed(f"{url}: redirects to a URL that is not HTTP; {advice}") from error
    except httpx.TransportError as error:
        raise FetchTransient(f"{url}: {error or type(error).__name__}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchFailed(f"{url}: {error or type(error).__name__}") from error


def _read(response: httpx.Response, url: str) -> Iterator[bytes]:
    """Yield the body as it was sent, not decoded: a small one may be encoded that inflates."""
    deadline = time.monotonic() + LONGEST
    for chunk in response.iter_raw():
        yield chunk
        if time.monotonic() > deadline:
            raise FetchTransient(f"{url}: has not ended after {LONGEST} seconds")


class _Member(tarfile.TarInfo):
    """A regular file; tarfile would read extended headers of any size into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header; the mode of the file is that of every copy."""
        member = super().frombuf(buf, encoding, errors)
        if member.type != tarfile.REGTYPE or member.size < 0:
            raise tarfile.TarError("it has other members than files")
        member.mode, member.mtime = 0o644, 0
        return member


def _extract(archive: Path, staging: Path, snapshot_id: str) -> Manifest:
    """Extract an archive and verify the snapshot in it; raises FetchFailed.

    The manifest comes first and states the size of every other file, so that an inflated archive
    is refused before the disk is full.
    """
    name, folder = f"the archive of {snapshot_id}", staging / snapshot_id
    limit = MAX_MANIFEST + archive.stat().st_size * MAX_RATIO
    try:
        with (
            zstd.open(archive) as content,
            tarfile.open(fileobj=content, mode="r|", bufsize=BUFFER, tarinfo=_Member) as members,
        ):
            first = members.next()
            if first is None or first.name != f"{snapshot_id}/{MANIFEST}":
                raise FetchFailed(f"{name} does not begin with its manifest")
            if first.size > MAX_MANIFEST:
                raise FetchFailed(f"{name} has a manifest of {first.size:,} bytes")
            members.extract(first, staging, filter="data")
            files = read_manifest(folder).files
            sizes = {f"{snapshot_id}/{path}": file.bytes for path, file in files.items()}
            sizes.pop(first.name, None)  # no file replaces the manifest
            if sum(sizes.values()) > limit:
                raise FetchFailed(f"{name} is inflated to {sum(sizes.values()):,} bytes")
            _check_room(staging, sum(sizes.values()))
            while (member := members.next()) is not None:
                if sizes.pop(member.name, -1) != member.size:
                    raise FetchFailed(f"{name} has a file that its manifest does not name")
                members.extract(member, staging, filter="data")
        if sizes:
            raise FetchFailed(f"{name} lacks {len(sizes)} files that its manifest names")
        return verify(folder)
    except SnapshotUnavailable as error:
        reason = str(error).removesuffix(f"; {REBUILD}").replace(f"{folder}/", "")
        raise FetchFailed(f"{name} is refused: {reason}") from error
    except (zstd.ZstdError, tarfile.TarError, EOFError, ValueError) as error:
        raise FetchFailed(f"{name} cannot be read: {error}") from error


def _check_room(folder: Path, size: int) -> None:
    """Raise FetchFailed where the disk has no room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if size + ROOM > free:
        raise FetchFailed(f"{folder}: {size:,} bytes are needed, {free:,} are free; make room")


def _one_line(error: Exception) -> str:
    """Return a message without credentials and queries of URLs, as one printable line."""
    message = _credentials.sub("", str(error))[:MAX_MESSAGE]
    return "".join(letter if letter.isprintable() else " " for letter in message)


def _parse(arguments: list[str], prog: str) -> argparse.Namespace:
    parser = Parser(
        prog=prog,
        description="Make this machine a copy of what another Ratecard serves. A service beside "
        "it takes each snapshot up.",
        examples=[
            f"{prog} https://catalogue.example",
            f"{prog} https://catalogue.example --every 30",
            f"{prog} https://bucket.example/downloads/current.json --artifacts /srv/ratecard",
        ],
    )
    parser.add_argument("url", help="a Ratecard, or a `current.json` beside its downloads")
    parser.add_argument(
        "--artifacts",
        type=Path,
        default=Path("artifacts"),
        metavar="FOLDER",
        help="where the copy is published (%(default)s)",
    )
    parser.add_argument(
        "--every",
        type=float,
        metavar="SECONDS",
        help="look again after this time, for ever; once without it",
    )
    parser.add_argument(
        "--keep",
        type=int,
        default=KEPT,
        metavar="N",
        help="snapshots that stay on disk, at least two (%(default)s)",
    )
    options = parser.parse_args(arguments)
    if options.every is not None and not 0 < options.every <= MAX_EVERY:
        parser.error(f"--every takes seconds, more than 0 and at most {MAX_EVERY:,}")
    try:
        _address_of(options.url)
    except FetchFailed as error:
        parser.error(str(error))
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
