"""Inputs of a build: the files behind its sources, payments and overlays."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from indexer.errors import IndexerError, SourceError
from indexer.intake.lists import STANDARD_INPUT, source_errors
from indexer.options import BuildOptions, Kind, OnError, SourceOptions
from indexer.progress import Progress
from indexer.text import printable
from service.errors import needs_extra
from service.urls import is_url

if TYPE_CHECKING:  # httpx is an optional dependency
    from indexer.intake.fetch import Feed, FeedProgress

SUFFIXES = (".jsonl", ".ndjson", ".json")


class Input(Struct, frozen=True):
    """A source to read: the file that holds it, or why there is none.

    options: of the source; `name` there is that of the file where a folder holds several
    source_name: the name of the source, of which the file may be one of several
    path: of the file, empty for a feed that could not be fetched
    is_lines: whether it is known to be JSON lines, whatever it looks like
    read_at: when the feed was read, None for now
    """

    options: SourceOptions
    source_name: str
    path: str
    is_lines: bool = False
    read_at: datetime | None = None
    failure: SourceError | None = None

    @property
    def name(self) -> str:
        """The name for messages and reports."""
        return self.options.name

    @property
    def public_name(self) -> str:
        """The name for everybody: of a source of the command line the file name, or the host."""
        source = self.options
        if source.path == STANDARD_INPUT and self.source_name == STANDARD_INPUT:
            return "stdin"
        if self.source_name == printable(source.path):
            return PurePath(self.source_name).name
        if source.url and is_url(self.source_name):
            return self.source_name.partition("//")[2].partition("/")[0]
        return self.source_name

    @property
    def file(self) -> Path | None:
        """The file, None for what can be read only once."""
        path = Path(self.path)
        return path if self.path != STANDARD_INPUT and path.is_file() else None

    @property
    def shown_file(self) -> str:
        """The file that positions in messages are lines of, where `name` is another one."""
        return self.path if self.options.url else ""

    @property
    def size(self) -> int | None:
        """Bytes of the file; None for standard input, a pipe or a device."""
        return None if self.file is None else self.file.stat().st_size

    @property
    def is_compressed(self) -> bool:
        """Whether the size of the file, by its name, is not that of its text."""
        return self.path.endswith((".gz", ".zst"))


class Inputs(Struct, frozen=True):
    """The files of a build by what they hold, and notes on the feeds among its sources."""

    sources: list[Input]
    payments: list[Input]
    overlays: list[Input]
    probes: list[Input]
    notes: list[str]

    @property
    def all(self) -> list[Input]:
        """All inputs."""
        return [*self.sources, *self.payments, *self.overlays, *self.probes]

    @property
    def size(self) -> int:
        """Bytes of the files of records and resources, as far as they are known."""
        return sum(each.size or 0 for each in self.sources)

    def is_below(self, size: int) -> bool:
        """Return whether the sources are known to have fewer bytes than this."""
        is_known = (each.file is not None and not each.is_compressed for each in self.sources)
        return all(is_known) and self.size < size

    @property
    def paths(self) -> list[str]:
        """The paths of all files."""
        return [each.path for each in self.all]


def find_inputs(options: BuildOptions) -> Inputs:
    """Find the files that the options name; feeds have no file yet.

    Raises SourceError for a folder or a pattern without files, and for a file that is missing.
    """
    kinds = (Kind.PAYMENTS, Kind.OVERLAY, Kind.PROBES, None)
    found: dict[Kind | None, list[Input]] = {kind: [] for kind in kinds}
    for source in options.sources:
        inputs = found.get(source.kind, found[None])
        known = {each.path for each in inputs if source.kind is Kind.PAYMENTS}
        for path in [""] if source.url else _expand(source, inputs):
            if path not in known:  # several patterns of payments may match a file
                given = source.name if path in {"", source.path} else printable(path)
                name = distinct_name(given, [each.options.name for each in inputs])
                inputs.append(_check(Input(replace(source, name=name), source.name, path)))
    return Inputs(
        sources=found[None],
        payments=found[Kind.PAYMENTS],
        overlays=found[Kind.OVERLAY],
        probes=found[Kind.PROBES],
        notes=[],
    )


def fetch_feeds(inputs: Inputs, options: BuildOptions, progress: Progress) -> Inputs:
    """Fetch the feeds among the inputs; without any, httpx need not be installed.

    A source that could not be fetched has its failure. Raises SourceError with the failures of all
    sources that must not fail, as payments, overlays and trusted probes never may.
    """
    feeds = [each.options for each in inputs.all if each.options.url]
    if not feeds:
        return inputs
    results = iter(_fetch(feeds, options, progress))
    notes: list[str] = []
    fatal: list[SourceError] = []

    def fetched(each: Input) -> Input:
        if not each.options.url:
            return each
        feed = next(results)
        if isinstance(feed, SourceError):
            if must_not_fail(each.options):
                fatal.append(feed)
            return replace(each, failure=feed)
        if feed.note:
            notes.append(f"{each.name}: {feed.note}")
        read_at = datetime.fromtimestamp(feed.walked_at, UTC)
        return replace(each, path=str(feed.path), is_lines=feed.is_lines, read_at=read_at)

    kinds = (inputs.sources, inputs.payments, inputs.overlays, inputs.probes)
    sources, payments, overlays, probes = ([fetched(each) for each in kind] for kind in kinds)
    if fatal:
        raise SourceError("\n".join(map(str, fatal)))
    return Inputs(sources, payments, overlays, probes, notes)


def must_not_fail(source: SourceOptions) -> bool:
    """Return whether a source that fails ends the build; probes that decide nothing never do."""
    if source.kind is Kind.PROBES:
        return source.trust > 0
    return not source.is_listed or source.on_error is OnError.FAIL


def distinct_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number where it is taken: URLs may differ in their query alone."""
    numbered = (f"{name} ({number})" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


def _check(each: Input) -> Input:
    """Return an input unless it is a file that is missing, and whose source must not fail."""
    if each.path not in {"", STANDARD_INPUT} and must_not_fail(each.options):
        with source_errors(each.name):
            Path(each.path).stat()
    return each


def _expand(source: SourceOptions, inputs: list[Input]) -> list[str]:
    """Return the files of a source: of a folder, or those that a pattern matches.

    A source without any, which may fail, is added to the inputs with its failure.
    """
    try:
        is_no_folder = source.kind is Kind.PAYMENTS or source.path == STANDARD_INPUT
        if is_no_folder or not Path(source.path).is_dir():
            return _expand_pattern(source.path)
        return _expand_folder(source.path)
    except SourceError as error:
        if must_not_fail(source):
            raise
        inputs.append(Input(source, source.name, "", failure=error))
        return []


def _expand_folder(name: str) -> list[str]:
    """Return the JSON files of a folder, by name; raises SourceError without any."""
    paths = [str(path) for path in sorted(Path(name).iterdir()) if _is_json(path)]
    if not paths:
        raise SourceError(f"{name}: no file here ends in {', '.join(SUFFIXES)} (or .gz, .zst)")
    return paths


def _expand_pattern(name: str) -> list[str]:
    """Return the files that match a shell pattern, or a file that exists.

    Raises SourceError for a pattern that no file matches.
    """
    if not glob.has_magic(name) or os.path.lexists(name):
        return [name]
    matches = sorted({*glob.glob(name, recursive=True)})  # noqa: PTH207  # Path.glob needs a root
    if not matches:
        raise SourceError(f"{printable(name)}: there is no such file, and none matches it")
    return matches


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").removesuffix(".zst").endswith(SUFFIXES) and path.is_file()


def _fetch(
    feeds: Sequence[SourceOptions], options: BuildOptions, progress: Progress
) -> list[Feed | SourceError]:
    try:
        from indexer.intake import fetch  # noqa: PLC0415  # needs httpx
    except ImportError as error:
        raise IndexerError(needs_extra("fetching feeds", "indexer")) from error
    by_name: dict[str, FeedProgress] = {}
    with progress.stage("fetch feeds") as stage:

        def report(feed: FeedProgress) -> None:
            by_name[feed.name] = feed
            states = by_name.values()
            totals = [state.total for state in states if state.total is not None]
            stage.update(
                sum(state.items for state in states),
                sum(totals) if len(totals) == len(states) else None,
                f"{sum(state.bytes for state in states) / 1e6:,.1f} MB",
            )

        scratch = options.from_scratch
        return fetch.fetch_feeds(feeds, options.out, options.limits, report, from_scratch=scratch)
