"""Memory-mapped files: plain arrays and bytes, never pickles."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import SnapshotDamaged


def open_array(path: Path) -> npt.NDArray[Any]:
    """Map a `.npy` file as a plain array and touch each of its pages; raises SnapshotDamaged.

    Slicing an `np.memmap` is slow, so a plain array over the same memory is returned. Touching the
    pages here saves the first query that needs them their page faults.
    """
    try:
        array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError as error:
        raise SnapshotDamaged(f"{path}: {error}") from error
    except (ValueError, EOFError) as error:  # NumPy's message suggests to allow pickles
        raise SnapshotDamaged(f"{path}: holds no plain array") from error
    array.reshape(-1).view(np.uint8)[:: mmap.PAGESIZE].max(initial=0)
    return array


def open_bytes(path: Path) -> mmap.mmap | bytes:
    """Map a file as read-only bytes."""
    with path.open("rb") as file:
        if not path.stat().st_size:  # mmap refuses empty files
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def items_of(array: npt.NDArray[Any]) -> memoryview:
    """Return a view whose single items are read several times faster than those of the array."""
    return memoryview(array)  # type: ignore[arg-type]  # NumPy declares the buffer protocol from Python 3.12 on
