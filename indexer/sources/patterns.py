"""Patterns: names of files as a shell writes them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from indexer.errors import SourceError
from indexer.text import printable


def expand_patterns(names: Iterable[str]) -> list[str]:
    """The files that these names stand for, each once: itself, or those that match a pattern.

    Raises SourceError for a pattern that nothing matches.
    """
    files: dict[str, None] = {}
    for name in names:
        found = [name]
        if glob.has_magic(name) and not os.path.lexists(name):
            found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  # Path.glob takes no root
            if not found:
                raise SourceError(f"{printable(name)}: there is no such file, and none matches it")
        files.update(dict.fromkeys(found))
    return [*files]
