"""Containers: what was written is read, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import SnapshotDamaged
from service.storage.container import (
    ALIGNMENT,
    MAGIC,
    Array,
    ArraysWriter,
    Layout,
    arrays_path,
    open_arrays,
    write_arrays,
    writing_arrays,
)
from service.storage.layouts import FILES

LAYOUT = Layout(
    "Ragged rows and a matrix.",
    offsets=Array("<i8", "rows+1"),
    items=Array("<i4 <u2", "items"),
    matrix=Array("|i1", "rows,3"),
)
HEADER = [["offsets", "<i8", [3], 256], ["items", "<i4", [2], 320], ["matrix", "|i1", [2, 3], 384]]


def arrays(rows: int = 2, items: int = 5) -> dict[str, npt.NDArray[Any]]:
    return {
        "offsets": np.arange(rows + 1),
        "items": np.arange(items, dtype=np.int32),
        "matrix": np.ones((rows, 3), np.int8),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a container, without the suffix."""
    path = tmp_path / "rows"
    write_arrays(path, LAYOUT, arrays())
    return path


def with_header(header: Any, size: int = 1024) -> bytes:
    """Return a file of this header and of zeros."""
    text = header if isinstance(header, bytes) else msgspec.json.encode(header)
    return (MAGIC + len(text).to_bytes(4, "little") + text).ljust(size, b"\0")


@settings(deadline=None)
@given(rows=st.integers(0, 9), items=st.integers(0, 99), kind=st.sampled_from(["<i4", "<u2"]))
def test_arrays_are_read_as_they_were_written_and_in_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: int, items: int, kind: str
) -> None:
    path = tmp_path_factory.mktemp("container") / "rows"
    written = arrays(rows, items)
    written["items"] = written["items"].astype(kind)
    write_arrays(path, LAYOUT, written)
    content = arrays_path(path).read_bytes()
    read = open_arrays(path, LAYOUT)
    assert list(read) == list(written)
    for name, array in written.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
        assert not read[name].flags.writeable
        assert read[name].ctypes.data % ALIGNMENT == 0
    write_arrays(path, LAYOUT, dict(reversed(written.items())))
    assert arrays_path(path).read_bytes() == content


@given(st.lists(st.integers(0, 4), min_size=1), st.booleans())
def test_a_streamed_array_is_the_same_file_as_a_whole_one(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], contiguous: bool
) -> None:
    folder = tmp_path_factory.mktemp("container")
    whole = arrays(sum(sizes), sum(sizes))
    write_arrays(folder / "whole", LAYOUT, whole)
    bounds = np.cumsum([0, *sizes])
    with writing_arrays(folder / "streamed", LAYOUT) as writer:
        writer.write("offsets", whole["offsets"])
        for name in ("items", "matrix"):
            array = whole[name] if contiguous else np.asfortranarray(whole[name])
            pieces = [array[bounds[n] : bounds[n + 1]] for n in range(len(sizes))]
            assert writer.stream(name, iter(pieces)).tolist() == sizes
    streamed = arrays_path(folder / "streamed").read_bytes()
    assert streamed == arrays_path(folder / "whole").read_bytes()


def test_bytes_are_streamed_into_an_array_of_bytes(tmp_path: Path) -> None:
    layout = Layout("Text.", text=Array("|u1", "bytes"))
    with writing_arrays(tmp_path / "text", layout) as writer:
        assert writer.stream("text", [b"ab", b"", memoryview(b"c")]).tolist() == [2, 0, 1]
    assert open_arrays(tmp_path / "text", layout)["text"].tobytes() == b"abc"


def others() -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Yield arrays that are not those of the layout."""
    right = arrays()
    yield {name: array for name, array in right.items() if name != "matrix"}
    yield {**right, "more": np.zeros(1)}
    for name, array in (
        ("offsets", np.zeros(2, np.int64)),
        ("offsets", np.zeros(3, ">i8")),
        ("items", np.zeros(5)),
        ("matrix", np.zeros((2, 4), np.int8)),
        ("matrix", np.zeros(6, np.int8)),
    ):
        yield {**right, name: array}


@pytest.mark.parametrize("other", [*others()])
def test_arrays_of_another_layout_are_not_written(
    tmp_path: Path, other: dict[str, npt.NDArray[Any]]
) -> None:
    with pytest.raises(ValueError, match=r"arrays of the layout|has the type .*, expected"):
        write_arrays(tmp_path / "rows", LAYOUT, other)
    with pytest.raises(SnapshotDamaged):
        open_arrays(tmp_path / "rows", LAYOUT)


def test_arrays_are_streamed_in_the_order_of_the_layout(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="the layout has offsets next, not items"),
        writing_arrays(tmp_path / "rows", LAYOUT) as writer,
    ):
        writer.write("items", np.zeros(1, np.int32))


def test_pieces_of_several_types_are_no_array(tmp_path: Path) -> None:
    pieces: list[npt.NDArray[Any]] = [np.zeros(2, np.int32), np.zeros(2, np.uint16)]
    with (tmp_path / "rows").open("wb") as file:
        writer = ArraysWriter(file, LAYOUT)
        writer.write("offsets", np.zeros(3, np.int64))
        with pytest.raises(ValueError, match="the pieces of items differ in type or width"):
            writer.stream("items", pieces)


def changed(array: int, field: int, value: Any) -> bytes:
    """Return a file whose header has another value."""
    header: Any = msgspec.json.decode(msgspec.json.encode(HEADER))
    header[array][field] = value
    return with_header(header)


DAMAGES: dict[str, bytes] = {
    "empty": b"",
    "another kind of file": b"\x93NUMPY" + bytes(999),
    "no header": MAGIC,
    "a header beyond the file": MAGIC + b"\xff" * 4 + b"[]",
    "no JSON": with_header(b"offsets"),
    "no UTF-8": with_header(b'[["\xff"]]'),
    "no arrays": with_header([]),
    "an array too many": with_header([*HEADER, ["more", "<i4", [1], 512]]),
    "an array twice": with_header([HEADER[0], HEADER[0], HEADER[2]]),
    "another name": changed(1, 0, "others"),
    "another type": changed(1, 1, "<f4"),
    "another byte order": changed(0, 1, ">i8"),
    "objects": changed(1, 1, "|O"),
    "a shape of another rank": changed(1, 2, [1, 2]),
    "another fixed dimension": changed(2, 2, [2, 4]),
    "dimensions that contradict each other": changed(2, 2, [3, 3]),
    "no item where there is one more": changed(0, 2, [0]),
    "a negative dimension": changed(1, 2, [-1]),
    "more items than the file": changed(1, 2, [10**6]),
    "a shape of more bytes than an address": changed(1, 2, [2**62]),
    "a dimension beyond 64 bits": changed(1, 2, [2**64]),
    "an offset beyond the file": changed(1, 3, 10**6),
    "an offset of more than 63 bits": changed(1, 3, 2**64 - 1),
    "a negative offset": changed(1, 3, -8),
    "an offset that is no number": changed(1, 3, "0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_with_a_damaged_header_is_not_opened(tmp_path: Path, damage: str) -> None:
    (tmp_path / "rows.arrays").write_bytes(DAMAGES[damage])
    with pytest.raises(SnapshotDamaged, match=r"rows\.arrays"):
        open_arrays(tmp_path / "rows", LAYOUT)


def test_the_header_that_the_damages_change_is_whole(tmp_path: Path) -> None:
    (tmp_path / "rows.arrays").write_bytes(with_header(HEADER))
    assert open_arrays(tmp_path / "rows", LAYOUT)["matrix"].shape == (2, 3)


def test_an_absent_or_truncated_file_is_not_opened(path: Path) -> None:
    file = arrays_path(path)
    for size in range(0, file.stat().st_size, 7):
        truncated = path.with_name("truncated")
        arrays_path(truncated).write_bytes(file.read_bytes()[:size])
        with pytest.raises(SnapshotDamaged, match=r"truncated\.arrays"):
            open_arrays(truncated, LAYOUT)
    file.unlink()
    with pytest.raises(SnapshotDamaged, match="No such file"):
        open_arrays(path, LAYOUT)


def test_a_write_that_fails_leaves_a_file_that_is_not_opened(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"ab"
        raise OSError("the disk is full")

    layout = Layout("Text.", text=Array("|u1", "bytes"))
    with (
        pytest.raises(OSError, match="full"),
        writing_arrays(tmp_path / "text", layout) as writer,
    ):
        writer.stream("text", pieces())
    with pytest.raises(SnapshotDamaged):
        open_arrays(tmp_path / "text", layout)


def test_every_array_of_the_table_has_one_known_type_and_a_text() -> None:
    for entry in FILES.values():
        assert entry.text
        for array in entry.layout.arrays.values() if entry.layout else ():
            assert all(np.dtype(kind).str == kind for kind in array.dtype.split())
            assert array.text
