"""Memory-mapped files: plain arrays and bytes, never pickles."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from service.errors import SnapshotDamaged


def open_array(path: Path) -> npt.NDArray[Any]:
    """Map a `.npy` file as a plain array and touch each of its pages; raises SnapshotDamaged.

    Without `np.memmap`, which `np.load` uses, opening a snapshot of 70 arrays takes 17 ms instead
    of 27. Touching the pages here saves the first query that needs them their page faults.
    """
    try:
        with path.open("rb") as file:
            npy.read_magic(file)
            shape, is_fortran, dtype = npy.read_array_header_1_0(file)
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            order: Literal["C", "F"] = "F" if is_fortran else "C"
            array = np.ndarray(shape, dtype, content, file.tell(), order=order)
    except OSError as error:
        raise SnapshotDamaged(f"{path}: {error}") from error
    except (ValueError, TypeError) as error:  # no array, one of objects, or a truncated one
        raise SnapshotDamaged(f"{path}: holds no plain array") from error
    array.reshape(-1, order="A").view(np.uint8)[:: mmap.PAGESIZE].max(initial=0)
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
