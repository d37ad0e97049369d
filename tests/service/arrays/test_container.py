"""Files of arrays: what was written is read, and a file that is not whole is not opened."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.arrays.container import (
    ALIGNMENT,
    MAGIC,
    Arrays,
    ArraysWriter,
    narrow,
    open_arrays,
    write_arrays,
    writing_arrays,
)
from service.errors import SnapshotDamaged

OFFSET = 256  # bytes; where the header of the damaged files begins
HEADER = {"rows": ["<i8", [3], 64], "matrix": ["|i1", [2, 3], 128]}


def arrays(rows: int = 2, items: int = 5) -> Arrays:
    return {
        "rows": np.arange(rows + 1),
        "items": np.arange(items, dtype=np.int32),
        "matrix": np.ones((rows, 3), np.int8),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a file of arrays."""
    path = tmp_path / "rows.arrays"
    write_arrays(path, arrays())
    return path


@settings(deadline=None)
@given(rows=st.integers(0, 9), items=st.integers(0, 99), kind=st.sampled_from(["<i4", "<u2", "?"]))
def test_arrays_are_read_as_they_were_written_and_in_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: int, items: int, kind: str
) -> None:
    path = tmp_path_factory.mktemp("container") / "rows.arrays"
    written = arrays(rows, items)
    written["items"] = written["items"].astype(kind)
    write_arrays(path, written)
    content = path.read_bytes()
    read = open_arrays(path)
    assert list(read) == list(written)
    for name, array in written.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
        assert not read[name].flags.writeable
        assert read[name].ctypes.data % ALIGNMENT == 0
    write_arrays(path, written)
    assert path.read_bytes() == content


@given(st.lists(st.integers(0, 4), min_size=1), st.booleans())
def test_a_streamed_array_is_the_same_file_as_a_whole_one(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], contiguous: bool
) -> None:
    folder = tmp_path_factory.mktemp("container")
    whole = arrays(sum(sizes), sum(sizes))
    write_arrays(folder / "whole", whole)
    bounds = np.cumsum([0, *sizes])
    with writing_arrays(folder / "streamed") as writer:
        writer.write("rows", whole["rows"])
        for name in ("items", "matrix"):
            array = whole[name] if contiguous else np.asfortranarray(whole[name])
            pieces = [array[bounds[n] : bounds[n + 1]] for n in range(len(sizes))]
            assert writer.stream(name, iter(pieces), array.dtype) == sizes
    assert (folder / "streamed").read_bytes() == (folder / "whole").read_bytes()


def test_bytes_are_streamed_into_an_array_of_bytes(tmp_path: Path) -> None:
    with writing_arrays(tmp_path / "text") as writer:
        assert writer.stream("text", [b"ab", b"", memoryview(b"c")]) == [2, 0, 1]
        assert writer.stream("none", [], np.int32) == []
    read = open_arrays(tmp_path / "text")
    assert read["text"].tobytes() == b"abc"
    assert read["none"].dtype.str == "<i4"


@pytest.mark.parametrize(
    "pieces",
    [
        [np.zeros(2, np.int32), np.zeros(2, np.uint16)],
        [np.zeros(2, np.uint16)],
        [np.zeros((2, 1), np.int32), np.zeros((2, 2), np.int32)],
    ],
)
def test_pieces_of_several_types_or_widths_are_no_array(pieces: list[npt.NDArray[Any]]) -> None:
    writer = ArraysWriter(io.BytesIO())
    with pytest.raises(ValueError, match="the pieces of items differ in type or width"):
        writer.stream("items", pieces, np.int32)


def test_a_name_is_written_once() -> None:
    writer = ArraysWriter(io.BytesIO())
    writer.write("items", np.zeros(1))
    with pytest.raises(ValueError, match="items was written before"):
        writer.write("items", np.zeros(1))


def with_header(header: Any, offset: int = OFFSET) -> bytes:
    """Return a file of zeros and this header."""
    text = header if isinstance(header, bytes) else msgspec.json.encode(header)
    return (MAGIC + offset.to_bytes(8, "little")).ljust(OFFSET, b"\0") + text


def changed(field: int, value: Any) -> bytes:
    """Return a file whose header has another value."""
    matrix = list(HEADER["matrix"])
    matrix[field] = value
    return with_header(HEADER | {"matrix": matrix})


DAMAGES: dict[str, bytes] = {
    "empty": b"",
    "another kind of file": b"\x93NUMPY" + bytes(999),
    "an earlier version": b"ARRAYS\x01\n" + bytes(999),
    "no header": MAGIC,
    "a header beyond the file": with_header(HEADER, 10**6),
    "a header beyond all files": with_header(HEADER, 2**64 - 1),
    "a header among the arrays": with_header(HEADER, 200),
    "no JSON": with_header(b"rows"),
    "no UTF-8": with_header(b'{"\xff":1}'),
    "a list": with_header([]),
    "no type": changed(0, ""),
    "another byte order": changed(0, ">i8"),
    "objects": changed(0, "|O"),
    "a shape that is no list": changed(1, 6),
    "a negative dimension": changed(1, [-1]),
    "more items than the file": changed(1, [10**6]),
    "a shape of more bytes than an address": changed(1, [2**62]),
    "a dimension beyond 64 bits": changed(1, [2**64]),
    "an offset beyond the file": changed(2, 10**6),
    "an offset of more than 63 bits": changed(2, 2**64 - 1),
    "a negative offset": changed(2, -8),
    "an offset that is no number": changed(2, "0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_with_a_damaged_header_is_not_opened(tmp_path: Path, damage: str) -> None:
    (tmp_path / "rows.arrays").write_bytes(DAMAGES[damage])
    with pytest.raises(SnapshotDamaged, match=r"rows\.arrays"):
        open_arrays(tmp_path / "rows.arrays")


def test_the_header_that_the_damages_change_is_whole(tmp_path: Path) -> None:
    (tmp_path / "rows.arrays").write_bytes(with_header(HEADER))
    assert open_arrays(tmp_path / "rows.arrays")["matrix"].shape == (2, 3)


def test_an_absent_or_truncated_file_is_not_opened(path: Path) -> None:
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(SnapshotDamaged, match=r"rows\.arrays"):
            open_arrays(path)
    path.unlink()
    with pytest.raises(SnapshotDamaged, match="No such file"):
        open_arrays(path)


def test_a_write_that_fails_leaves_a_file_that_is_not_opened(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"ab"
        raise OSError("the disk is full")

    with (
        pytest.raises(OSError, match="full"),
        writing_arrays(tmp_path / "text") as writer,
    ):
        writer.stream("text", pieces())
    with pytest.raises(SnapshotDamaged):
        open_arrays(tmp_path / "text")


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [([], "u1"), ([0, 255], "u1"), ([256], "u2"), ([2**16], "u4"), ([2**32], "u8")],
)
def test_numbers_get_the_smallest_type_that_holds_them(numbers: list[int], kind: str) -> None:
    narrowed = narrow(np.array(numbers, np.int64))
    assert narrowed.tolist() == numbers
    assert narrowed.dtype == np.dtype(kind)
