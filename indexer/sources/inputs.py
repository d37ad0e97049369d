"""Inputs: the files that a build reads, and whether it is the last one over again."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

import indexer
import service
from indexer.catalogue.record import given_id
from indexer.cli.report import Report
from indexer.errors import IndexerError, SourceError
from indexer.options import BuildOptions
from indexer.progress import Progress
from indexer.snapshot.publish import STAGING
from indexer.sources.patterns import expand_patterns
from indexer.sources.records import STANDARD_INPUT, SourceRecord, expand
from indexer.sources.rejects import Reject
from indexer.text import printable
from service.errors import SnapshotUnavailable
from service.search.config import SEARCH_CONFIG
from service.snapshot.snapshot import FORMAT, read_current, sha256

if TYPE_CHECKING:
    from indexer.feeds.reader import Feed

LAST = "last.json"
"""In the artifacts folder: what the last build read and said. Without it, the next reads all."""

FEEDS = "feeds"
"""In the artifacts folder: what feeds held when they were fetched last."""

LARGE = 4 * 2**20
"""Bytes of sources that are worth more than one process."""

NOT_KEPT = "no file"
PROGRAMS = (indexer, service)


class Input(Struct, frozen=True):
    """A source: its name as a person knows it, and the file that holds it."""

    name: str
    path: str

    @property
    def is_plain(self) -> bool:
        """Whether it is a file as long as its text."""
        return Path(self.path).is_file() and not self.path.endswith(".gz")

    def reject(self, record: SourceRecord, path: str, reason: str) -> Reject:
        """A record of it that is not indexed as it is: where the fault lies in it, and what."""
        return Reject(self.name, record.position, given_id(record.text), path, reason)


class Inputs(Struct, frozen=True):
    """All that a build reads.

    `digest` stands for every byte of it and for what is asked of it, or is None where something is
    no file that could be read twice. `notes` say what else there is to know.
    """

    sources: list[Input]
    payments: list[str]
    overlays: list[str]
    notes: list[str]
    digest: str | None

    @property
    def workers(self) -> int:
        """How many processes to start before it is known how many services there are."""
        sizes = [_size(source.path) for source in self.sources]
        cores = os.cpu_count() or 1
        return cores if cores > 1 and sum(sizes) >= LARGE else 0

    @property
    def paths(self) -> list[str]:
        """The files."""
        return [*(source.path for source in self.sources), *self.payments, *self.overlays]


class LastBuild(Struct):
    """What was read, in one hash, and what was said of it."""

    digest: str
    rejects: str
    report: Report


_last = msgspec.json.Decoder(LastBuild)


def gather_inputs(options: BuildOptions, progress: Progress) -> Inputs:
    """The files behind the options of a build; feeds are fetched to their end first.

    Raises SourceError for what is missing or cannot be fetched.
    """
    sources: list[Input] = []
    notes: list[str] = []
    for name in options.sources:
        if name.startswith(("http://", "https://")):
            feed = _fetch(name, options, progress)
            sources.append(Input(feed.source, str(feed.path)))
            notes += [f"{feed.source}: {feed.note}"] if feed.note else []
        else:
            sources += [Input(printable(file), file) for file in expand([name])]
    payments, overlays = expand_patterns(options.transactions), expand(options.overlays)
    gathered = Inputs(sources, payments, overlays, notes, None)
    asked = [options.policy, str(options.max_rejects), FORMAT, SEARCH_CONFIG]
    with progress.stage("compare with the last build"):
        return msgspec.structs.replace(gathered, digest=_digest(gathered, asked))


def recall(artifacts: Path, inputs: Inputs, rejects: Path | None) -> Report | None:
    """What was said when the same was read last; None when it was not, or must be read again.

    It must be where what was published then is not what is served now, or where rejects go to what
    does not keep them.
    """
    try:
        last = _last.decode((artifacts / LAST).read_bytes())
        served, _ = read_current(artifacts)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, SnapshotUnavailable):
        return None
    listed = _listed(rejects)
    if (inputs.digest, listed, served) != (last.digest, last.rejects, last.report.snapshot):
        return None
    if inputs.digest is None or listed == NOT_KEPT:
        return None
    return msgspec.structs.replace(last.report, changed=False, changes=None)


def remember(artifacts: Path, inputs: Inputs, rejects: Path | None, report: Report) -> None:
    """Keep what was said for when the same is read again. Called in `stage`."""
    path, fresh = artifacts / LAST, artifacts / STAGING / LAST
    with suppress(OSError):  # it would save time, and what this build was for is done
        if inputs.digest is None or report.depends_on_time:
            path.unlink(missing_ok=True)
            return
        fresh.write_bytes(msgspec.json.encode(LastBuild(inputs.digest, _listed(rejects), report)))
        fresh.replace(path)


def _fetch(url: str, options: BuildOptions, progress: Progress) -> Feed:
    """Fetch a feed; httpx is imported here, so that a catalogue of files builds without it."""
    try:
        from indexer.feeds.reader import fetch_feed  # noqa: PLC0415  # see above
        from indexer.feeds.url import shown  # noqa: PLC0415  # see above
    except ImportError as error:
        raise IndexerError(
            "feeds are fetched by httpx, which is not installed: pip install 'ratecard[indexer]'"
        ) from error
    with progress.stage(f"fetch {shown(url)}"):
        return fetch_feed(url, options.out / FEEDS, options.limits)


def _digest(inputs: Inputs, asked: object) -> str | None:
    names = [source.name for source in inputs.sources]
    roles = [len(inputs.sources), len(inputs.payments), len(inputs.overlays)]
    digest = hashlib.sha256(msgspec.json.encode([asked, names, roles, _program()]))
    for path in inputs.paths:
        if path == STANDARD_INPUT or not Path(path).is_file():
            return None
        try:
            digest.update(f"{printable(path)} {_hash(path)}\n".encode())
        except OSError as error:
            raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


def _size(path: str) -> int:
    """Bytes of a file; what is none, such as standard input, is taken to be large."""
    return Path(path).stat().st_size if Path(path).is_file() else LARGE


def _hash(path: str) -> str:
    """Twice as fast as SHA-256 where the processor has no instructions for that."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _listed(rejects: Path | None) -> str:
    """What tells whether the file of rejects is there as it was written."""
    if rejects is None or not rejects.is_file():
        return "" if rejects is None else NOT_KEPT
    return f"{rejects.resolve()} {sha256(rejects)}"


def _program() -> str:
    """A hash of the code, since another one may read the same otherwise."""
    digest = hashlib.sha256()
    for package in PROGRAMS:
        for path in sorted(Path(*package.__path__).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
