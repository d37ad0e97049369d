"""Inputs of a build: the files behind its sources, payments and overlays."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from indexer.errors import IndexerError, SourceError
from indexer.options import BuildOptions, Kind, SourceOptions
from indexer.progress import Progress
from indexer.sources.records import STANDARD_INPUT
from indexer.text import printable

if TYPE_CHECKING:  # httpx is an optional dependency
    from indexer.feeds.reader import Feed, FeedProgress

FEEDS = "feeds"
"""The folder in the artifacts folder that holds the feeds as they were fetched last."""
SUFFIXES = (".jsonl", ".ndjson", ".json")


class Input(Struct, frozen=True):
    """A source to read: the file that holds it.

    options: of the source; `name` there is that of the file where a folder holds several
    path: of the file
    """

    options: SourceOptions
    path: str

    @property
    def name(self) -> str:
        """The name for messages and reports."""
        return self.options.name

    @property
    def size(self) -> int | None:
        """Bytes of the file; None for standard input, a pipe or a device."""
        path = Path(self.path)
        return path.stat().st_size if path.is_file() else None

    @property
    def is_compressed(self) -> bool:
        """Whether the size of the file, by its name, is not that of its text."""
        return self.path.endswith(".gz")


class Inputs(Struct, frozen=True):
    """The files of a build by what they hold, and notes on the feeds among its sources."""

    sources: list[Input]
    payments: list[Input]
    overlays: list[Input]
    notes: list[str]

    @property
    def all(self) -> list[Input]:
        """All inputs."""
        return [*self.sources, *self.payments, *self.overlays]

    @property
    def paths(self) -> list[str]:
        """The paths of all files."""
        return [each.path for each in self.all]


def gather_inputs(options: BuildOptions, progress: Progress) -> Inputs:
    """Find the files that the options name, and fetch the feeds.

    Raises SourceError for a feed that cannot be fetched, and for a folder or a pattern without
    files.
    """
    feeds = _fetch_feeds(options, progress)
    inputs = Inputs(
        [], [], [], [f"{feed.source}: {feed.note}" for feed in feeds.values() if feed.note]
    )
    for source in options.sources:
        if source.url:
            inputs.sources.append(Input(source, str(feeds[source.url].path)))
        elif source.kind is Kind.PAYMENTS:
            known = {each.path for each in inputs.payments}  # several patterns may match a file
            paths = [path for path in expand_patterns([source.path]) if path not in known]
            inputs.payments.extend(_files(source, paths))
        elif source.kind is Kind.OVERLAY:
            inputs.overlays.extend(_files(source, expand_folder(source.path)))
        else:
            inputs.sources.extend(_files(source, expand_folder(source.path)))
    return inputs


def _files(source: SourceOptions, paths: Sequence[str]) -> Iterator[Input]:
    """Yield an input for each file of a source, named by its path where there are several."""
    for path in paths:
        is_alone = path == source.path
        yield Input(source if is_alone else replace(source, name=printable(path)), path)


def expand_folder(name: str) -> list[str]:
    """Return the JSON files of a folder, by name, or the name of anything else.

    Raises SourceError for a folder without a JSON file.
    """
    if name == STANDARD_INPUT or not Path(name).is_dir():
        return [name]
    paths = [str(path) for path in sorted(Path(name).iterdir()) if _is_json(path)]
    if not paths:
        raise SourceError(f"{name}: no file here ends in {', '.join(SUFFIXES)} (or .gz)")
    return paths


def expand_patterns(names: Iterable[str]) -> list[str]:
    """Return the files that match shell patterns, and files that exist, each once.

    Raises SourceError for a pattern that no file matches.
    """
    paths: dict[str, None] = {}
    for name in names:
        matches = [name]
        if glob.has_magic(name) and not os.path.lexists(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  # Path.glob needs a root
            if not matches:
                raise SourceError(f"{printable(name)}: there is no such file, and none matches it")
        paths.update(dict.fromkeys(matches))
    return [*paths]


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(SUFFIXES) and path.is_file()


def _fetch_feeds(options: BuildOptions, progress: Progress) -> dict[str, Feed]:
    """Fetch the feeds among the sources, by URL; without any, httpx need not be installed."""
    urls = [source.url for source in options.sources if source.url]
    if not urls:
        return {}
    try:
        from indexer.feeds.reader import fetch_feeds  # noqa: PLC0415  # needs httpx
    except ImportError as error:
        raise IndexerError(
            f"feeds are fetched by {error.name}, which is not installed: "
            "install ratecard with the extra [indexer]"
        ) from error
    by_source: dict[str, FeedProgress] = {}
    with progress.stage("fetch feeds") as stage:

        def report(feed: FeedProgress) -> None:
            by_source[feed.source] = feed
            feeds = by_source.values()
            totals = [feed.total for feed in feeds if feed.total is not None]
            stage.update(
                sum(feed.items for feed in feeds),
                sum(totals) if len(totals) == len(feeds) else None,
                f"{sum(feed.bytes for feed in feeds) / 1e6:,.1f} MB",
            )

        feeds = fetch_feeds(urls, options.out / FEEDS, options.limits, report)
    return dict(zip(urls, feeds, strict=True))
