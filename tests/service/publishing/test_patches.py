"""Patches: a file is made from an earlier one, or a clear error."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import DownloadDamaged
from service.publishing import patches
from service.publishing.frames import CHUNK, compress, unpack
from service.publishing.patches import Patch, apply_patch, make_patch
from service.publishing.transforms import (
    PLAIN,
    Difference,
    Gather,
    Renumber,
    Transform,
    pack_numbers,
)
from tests.support.running import examples

PIECE = 4096
"""Bytes of a piece in tests: files of many pieces are small."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "PIECE", PIECE)
    monkeypatch.setattr(patches, "MAX_PREFIX", 2 * PIECE)


def patched(base: bytes, target: bytes, transform: Transform = PLAIN) -> tuple[bytes, bytes]:
    """Return a patch between two contents, and the content that it makes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "base").write_bytes(base)
        (folder / "target").write_bytes(target)
        patch = make_patch(folder / "base", folder / "target", transform)
        return patch, applied(base, patch, len(target))


def applied(base: bytes, patch: bytes, size: int) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "base").write_bytes(base)
        apply_patch(folder / "base", patch, folder / "made", size)
        return (folder / "made").read_bytes()


def array(values: Any, dtype: str) -> bytes:
    """Return the content of a `.npy` file."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "array.npy")
        np.save(path, np.asarray(values, dtype))
        return path.read_bytes()


contents = st.binary(max_size=200) | st.builds(
    lambda unit, count, end: unit * count + end,
    st.binary(min_size=1, max_size=50),
    st.integers(0, 400),
    st.binary(max_size=20),
)


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Two contents, of which the second is the first with some ranges replaced."""
    base = target = draw(contents)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(target)))
        stop = draw(st.integers(start, len(target)))
        target = target[:start] + draw(contents) + target[stop:]
    return base, target


numbers = st.lists(st.integers(-5, 300), max_size=60).map(lambda values: np.asarray(values, "<i4"))
transforms = st.one_of(
    st.just(PLAIN),
    st.builds(
        Renumber, st.sampled_from([4, 8]), st.sampled_from([0, 24]), numbers.map(pack_numbers)
    ),
    st.builds(Difference, st.sampled_from([4, 8]), st.integers(1, 3)),
    st.builds(Gather, st.integers(1, 40), numbers.map(pack_numbers)),
)


@settings(max_examples=examples(400), deadline=None)
@given(st.tuples(contents, contents) | edited(), transforms)
def test_a_patch_makes_the_file_from_the_earlier_one(
    pair: tuple[bytes, bytes], transform: Transform
) -> None:
    base, target = pair
    assert patched(base, target, transform)[1] == target


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(-(2**62), 2**62), max_size=1500),
    st.lists(st.integers(-(2**62), 2**62), max_size=1500),
    st.sampled_from(["<i8", "<u8"]),
    transforms,
)
def test_a_patch_makes_an_array_from_the_earlier_one(
    before: list[int], after: list[int], dtype: str, transform: Transform
) -> None:
    base, target = (array(np.asarray(each, "i8").view("u8"), dtype) for each in (before, after))
    assert patched(base, target, transform)[1] == target


def test_a_patch_is_small_where_little_changed() -> None:
    rng = np.random.default_rng(1)
    base = rng.bytes(20 * PIECE)
    target = base[: 9 * PIECE] + b"changed" + base[9 * PIECE + 100 :]
    assert len(patched(base, target)[0]) < len(target) / 50


@pytest.mark.parametrize(
    ("base", "target", "transform"),
    [
        pytest.param(
            np.random.default_rng(1).integers(0, 5000, 5000),
            np.random.default_rng(1).integers(0, 5000, 5000) + 1,
            Renumber,
            id="numbers",
        ),
        pytest.param(
            np.cumsum(np.random.default_rng(1).integers(0, 200, 5000)),
            np.cumsum(np.random.default_rng(1).integers(0, 200, 5000)) + 7,
            Difference,
            id="positions",
        ),
    ],
)
def test_a_transform_makes_a_patch_small(
    base: Any, target: Any, transform: type[Renumber | Difference]
) -> None:
    chosen = (
        Renumber(4, 0, pack_numbers(np.arange(5000) + 1))
        if transform is Renumber
        else Difference(4)
    )
    files = array(base, "<i4"), array(target, "<i4")
    patch, content = patched(*files, chosen)
    assert content == files[1]
    assert len(patch) < len(patched(*files)[0]) / 5


def test_gathered_rows_make_a_patch_small() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(-128, 127, (1000, 64), "i1")
    order = rng.permutation(1000)
    base, target = array(rows, "i1"), array(rows[order], "i1")
    patch, content = patched(base, target, Gather(64, pack_numbers(order)))
    assert content == target
    assert len(patch) < 5000


@settings(max_examples=examples(200), deadline=None)
@given(edited(), contents, transforms)
def test_another_earlier_file_makes_another_file_of_the_size_or_an_error(
    pair: tuple[bytes, bytes], other: bytes, transform: Transform
) -> None:
    patch, target = patched(*pair, transform)
    with suppress(DownloadDamaged):
        assert len(applied(other, patch, len(target))) == len(target)


@settings(max_examples=examples(400), deadline=None)
@given(edited(), transforms, st.data())
def test_a_damaged_patch_never_makes_more_than_the_size(
    pair: tuple[bytes, bytes], transform: Transform, data: st.DataObject
) -> None:
    patch, target = patched(*pair, transform)
    position = data.draw(st.integers(0, len(patch) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                patch[:position],
                patch[:position]
                + bytes([patch[position] ^ 1 + position % 255])
                + patch[position + 1 :],
                patch + b"more",
            ]
        )
    )
    with suppress(DownloadDamaged):
        assert len(applied(pair[0], damaged, len(target))) == len(target)


def bomb(size: int) -> bytes:
    """Return a frame of zeros, much smaller than its content."""
    return compress(bytes(size))


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: Patch(b"", 0, PLAIN, [patches.Piece(0, 0, 100, frame)]),
        lambda frame: Patch(bytes(100), 0, PLAIN, [patches.Piece(0, 0, 0, frame)]),
    ],
)
def test_a_frame_of_more_than_its_size_is_refused(make: Callable[[bytes], Patch]) -> None:
    patch = msgspec.msgpack.encode(make(bomb(50 * CHUNK)))
    with pytest.raises(DownloadDamaged, match="does not hold"):
        applied(b"", patch, 100)


def test_numbers_of_more_than_their_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.publishing.transforms.MAX_NUMBERS", 1000)
    transform = Renumber(4, 0, bomb(4001))
    patch = msgspec.msgpack.encode(Patch(b"", 0, transform, [patches.Piece(0, 4, 4, b"")]))
    with pytest.raises(DownloadDamaged, match="more than 4000 bytes"):
        applied(bytes(8), patch, 4)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_a_frame_is_unpacked_within_its_size(size: int, tmp_path: Path) -> None:
    target, content = tmp_path / "file", np.random.default_rng(3).bytes(size)
    frame = compress(content)
    unpack(frame, target, size)
    assert target.read_bytes() == content
    for wrong in {size + 1, max(0, size - 1)} - {size}:
        with pytest.raises(DownloadDamaged, match="does not hold"):
            unpack(frame, target, wrong)
        assert target.stat().st_size <= wrong
    with pytest.raises(DownloadDamaged, match="truncated"):
        unpack(frame[:-1], target, size)
    with pytest.raises(DownloadDamaged, match="other bytes after it"):
        unpack(frame + frame, target, size)
    with pytest.raises(DownloadDamaged, match="cannot be decompressed"):
        unpack(b"no frame" * 10, target, size)
