"""The last read state of an artifacts folder: published snapshot, kept snapshots, downloads."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from service.artifacts.downloads import DOWNLOADS, POINTER, Downloads, read_downloads
from service.artifacts.file_states import FileState, are_settled, state_of
from service.artifacts.kept import KeptSnapshots, read_kept
from service.errors import SnapshotUnavailable
from service.snapshot.publication import CURRENT, HISTORY, SNAPSHOTS, Publication, read_current


class ArtifactsFolder:
    """Watches an artifacts folder: `refresh` reads it again after a change, all else does not.

    For any thread. `downloads` tells whether they are read, too.
    """

    def __init__(self, path: Path, *, downloads: bool = False) -> None:
        self.path = path
        self.current: Publication | None = None
        """The published snapshot, None where none is named."""
        self.kept = KeptSnapshots()
        self.downloads = Downloads() if downloads else None
        """The downloads of the kept snapshots, None where they are not read."""
        self.states: tuple[FileState, ...] = ()
        """The states of the files that change when anything is published, repaired or removed."""
        self.version = 0
        """A number that grows with each change of `current`, `kept` or `downloads`."""
        self._read: tuple[FileState, ...] = ()
        self._refreshing = threading.Lock()

    def refresh(self) -> None:
        """Read the folder if it may have changed since it was last read."""
        with self._refreshing:
            now, current = time.time_ns(), None
            with suppress(SnapshotUnavailable):
                current = read_current(self.path)
            names = [CURRENT, HISTORY, SNAPSHOTS, POINTER, DOWNLOADS]
            if current is not None:
                names.append(f"{SNAPSHOTS}/{current.id}")
            states = self.states = tuple(state_of(self.path / name) for name in names)
            if states != self._read:
                before, downloads = (self.current, self.kept, self.downloads), self.downloads
                kept = read_kept(self.path, self.kept)
                if downloads is not None:
                    downloads = read_downloads(self.path, downloads)
                self.current, self.kept, self.downloads = current, kept, downloads
                self.version += before != (current, kept, downloads)
                self._read = states if are_settled(states, now) else ()
