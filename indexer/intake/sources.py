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
from indexer.intake.kept import LINES_SUFFIX, KeptSource
from indexer.intake.lists import STANDARD_INPUT, source_errors
from indexer.options import BuildOptions, Kind, OnError, SourceOptions
from indexer.progress import Progress
from indexer.text import printable
from service.errors import needs_extra
from service.urls import is_url

if TYPE_CHECKING:  # httpx is an optional dependency
    from indexer.intake.fetch import Feed

SUFFIXES = (".jsonl", ".ndjson", ".json")


class Input(Struct, frozen=True):
    """A source to read: the file that holds it, or why there is none.

    options: of the source; `name` there is that of the file where a folder holds several
    source_name: the name of the source, of which the file may be one of several
    path: of the file, empty for a feed that could not be fetched
    read_at: when the feed was read, None for now
    """

    options: SourceOptions
    source_name: str
    path: str
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
    def is_lines(self) -> bool:
        """Whether each line of the file is an item, as of a feed that was walked."""
        return self.options.url != "" and self.path.endswith(LINES_SUFFIX)

    @property
    def file(self) -> Path | None:
        """The file, None for what can be read only once."""
        path = Path(self.path)
        return path if self.path != STANDARD_INPUT and path.is_file() else None

    @property
    def is_lost(self) -> bool:
        """Whether the feed could not be fetched, or the file is missing."""
        return self.path != STANDARD_INPUT and not (self.path and Path(self.path).exists())

    @property
    def shown_file(self) -> str:
        """The file that positions in messages are lines of, where `name` is another one."""
        return self.path if self.options.url else ""

    @property
    def size(self) -> int | None:
        """Bytes of the file; None for standard input, a pipe or a device."""
        file = self.file
        return None if file is None else file.stat().st_size

    @property
    def is_compressed(self) -> bool:
        """Whether the size of the file, by its name, is not that of its text."""
        return self.path.endswith((".gz", ".zst"))


class Inputs(Struct, frozen=True):
    """The files of a build, and notes on the feeds among its sources."""

    all: list[Input]
    notes: list[str] = []

    def of_kind(self, kind: Kind | None) -> list[Input]:
        """Return the inputs of a kind, None for those of services and resources."""
        return [each for each in self.all if _role(each.options) is kind]

    @property
    def sources(self) -> list[Input]:
        """The inputs of services and resources."""
        return self.of_kind(None)

    @property
    def payments(self) -> list[Input]:
        """The inputs of payments."""
        return self.of_kind(Kind.PAYMENTS)

    @property
    def overlays(self) -> list[Input]:
        """The overlays."""
        return self.of_kind(Kind.OVERLAY)

    @property
    def probes(self) -> list[Input]:
        """The inputs of observations."""
        return self.of_kind(Kind.PROBES)

    @property
    def size(self) -> int:
        """Bytes of the files of records and resources, as far as they are known."""
        return sum(each.size or 0 for each in self.sources)

    def is_below(self, size: int, artifacts: Path) -> bool:
        """Return whether the sources are known to have fewer bytes than this.

        The copy in the artifacts folder, if there is one, stands for a source that is lost.
        """
        total = 0
        for each in self.sources:
            known = each.size
            if known is None and each.is_lost:
                copy = KeptSource(artifacts, each.options).copy
                known = None if copy is None else copy.stat().st_size
            elif known is None or each.is_compressed:
                return False
            total += known or 0
        return total < size

    @property
    def paths(self) -> list[str]:
        """The paths of all files."""
        return [each.path for each in self.all]


def find_inputs(options: BuildOptions) -> Inputs:
    """Find the files that the options name; feeds have no file yet.

    Raises SourceError for a folder or a pattern without files, and for a file that is missing.
    """
    inputs = Inputs([])
    for source in options.sources:
        others = inputs.of_kind(_role(source))
        names = [each.name for each in others]
        known = {each.path for each in others if source.kind is Kind.PAYMENTS}
        try:
            paths = [""] if source.url else _expand(source)
        except SourceError as error:
            if must_not_fail(source):
                raise
            inputs.all.append(Input(source, source.name, "", failure=error))
            continue
        for path in paths:
            if path not in known:  # several patterns of payments may match a file
                given = source.name if path in {"", source.path} else printable(path)
                names.append(distinct_name(given, names))
                inputs.all.append(Input(replace(source, name=names[-1]), source.name, path))
    return inputs


def fetch_feeds(inputs: Inputs, options: BuildOptions, progress: Progress) -> Inputs:
    """Fetch the feeds among the inputs; without any, httpx need not be installed.

    A source that could not be fetched has its failure. Raises SourceError with the failures of all
    sources that must not fail, as payments, overlays and trusted probes never may.
    """
    feeds = [each.options for each in inputs.all if each.options.url]
    results = iter(_fetch(feeds, options, progress) if feeds else ())
    found = Inputs([])
    fatal: list[str] = []
    for each in inputs.all:
        feed = next(results) if each.options.url else None
        if isinstance(feed, SourceError):
            fatal += [str(feed)] * must_not_fail(each.options)
            found.all.append(replace(each, failure=feed))
        elif feed is None:
            found.all.append(each)
        else:
            note = feed.fetched.note
            found.notes.extend([f"{each.name}: {note}"] if note else [])
            read_at = datetime.fromtimestamp(feed.fetched.walked_at, UTC)
            found.all.append(replace(each, path=str(feed.path), read_at=read_at))
    if fatal:
        raise SourceError("\n".join(fatal))
    return found


def must_not_fail(source: SourceOptions) -> bool:
    """Return whether a source that fails ends the build; probes that decide nothing never do."""
    if source.kind is Kind.PROBES:
        return source.trust > 0
    return not source.is_listed or source.on_error is OnError.FAIL


def distinct_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number where it is taken: URLs may differ in their query alone."""
    numbered = (f"{name} ({number})" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


def _role(source: SourceOptions) -> Kind | None:
    return None if source.is_listed else source.kind


def _expand(source: SourceOptions) -> list[str]:
    """Return the files of a source: those of a folder by name, or those that a pattern matches.

    Raises SourceError for a folder or a pattern without files, and for a file that is missing and
    whose source must not fail.
    """
    name = source.path
    if source.kind is not Kind.PAYMENTS and name != STANDARD_INPUT and Path(name).is_dir():
        files = sorted(each for each in Path(name).iterdir() if each.is_file())
        plain = {each: each.name.removesuffix(".gz").removesuffix(".zst") for each in files}
        if paths := [str(each) for each in files if plain[each].endswith(SUFFIXES)]:
            return paths
        raise SourceError(f"{name}: no file here ends in {', '.join(SUFFIXES)} (or .gz, .zst)")
    if glob.has_magic(name) and not os.path.lexists(name):
        matches = sorted({*glob.glob(name, recursive=True)})  # noqa: PTH207  # Path.glob needs a root
        if not matches:
            raise SourceError(f"{printable(name)}: there is no such file, and none matches it")
        return matches
    if name != STANDARD_INPUT and must_not_fail(source):
        with source_errors(printable(name)):
            Path(name).stat()
    return [name]


def _fetch(
    feeds: Sequence[SourceOptions], options: BuildOptions, progress: Progress
) -> list[Feed | SourceError]:
    try:
        from indexer.intake import fetch  # noqa: PLC0415  # needs httpx
    except ImportError as error:
        raise IndexerError(needs_extra("fetching feeds", "indexer")) from error
    with progress.stage("fetch feeds") as stage:
        received = 0

        def report(size: int, items: int) -> None:
            nonlocal received
            received += size
            stage.advance(items, f"{received / 1e6:,.1f} MB")

        scratch = options.from_scratch
        return fetch.fetch_feeds(feeds, options.out, options.limits, report, from_scratch=scratch)
