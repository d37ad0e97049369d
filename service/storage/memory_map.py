"""Files mapped into memory: plain arrays and bytes, never pickles."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import SnapshotDamaged


def open_array(path: Path) -> npt.NDArray[Any]:
    """A mapped `.npy` file as a plain array, every page touched; raises SnapshotDamaged.

    Slices of `np.memmap` itself are slow. Touching a page once puts it into the page table of the
    process; otherwise the first query that needs it pays for a fault.
    """
    try:
        array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError as error:
        raise SnapshotDamaged(f"{path}: {error}") from error
    except (ValueError, EOFError) as error:  # NumPy would have it loaded unsafely
        raise SnapshotDamaged(f"{path}: holds no plain array") from error
    array.reshape(-1).view(np.uint8)[:: mmap.PAGESIZE].max(initial=0)
    return array


def open_bytes(path: Path) -> mmap.mmap | bytes:
    """A file as read-only bytes."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def items_of(array: npt.NDArray[Any]) -> memoryview:
    """An array for reading single items, several times faster than from the array itself."""
    return memoryview(array)  # type: ignore[arg-type]  # NumPy declares its buffers from Python 3.12 on only
