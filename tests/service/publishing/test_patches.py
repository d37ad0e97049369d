"""Patches: a file is made from an earlier one, or a clear error."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from service.artifacts.downloads import PatchPiece
from service.errors import DownloadDamaged
from service.publishing import frames, patches
from service.publishing.frames import CHUNK, compress, cut, unpack
from service.publishing.patches import (
    MAX_SECTIONS,
    apply_patch,
    differences_of,
    make_piece,
    plan,
    sums_of,
)
from service.storage.container import SUFFIX, Array, Layout, sections_of, write_arrays
from tests.support.running import examples

PIECE = 4096
"""Bytes of a piece in tests: files of many pieces are small."""
LAYOUT = Layout(
    "Arrays of several widths.",
    bytes=Array("|u1", "a"),
    shorts=Array("<i2", "b"),
    numbers=Array("<i4", "c"),
    positions=Array("<i8", "d,2"),
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "PIECE", PIECE)
    monkeypatch.setattr(patches, "MAX_PREFIX", 2 * PIECE)
    monkeypatch.setattr(frames, "SMALL", PIECE // 4)


class Patch:
    """The pieces that make a content from another, and their frames end to end."""

    def __init__(self, base: bytes, target: bytes) -> None:
        self.pieces: list[PatchPiece] = []
        self.frames = b""
        for each in plan(base, target):
            piece, frame = make_piece(base, target, each)
            self.pieces.append(replace(piece, offset=len(self.frames)))
            self.frames += frame

    def apply(self, base: bytes, size: int) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "base").write_bytes(base)
            apply_patch(folder / "base", self.pieces, self.frames, folder / "made", size)
            return (folder / "made").read_bytes()


def container(numbers: list[int], positions: list[int], content: bytes) -> bytes:
    """Return the content of a container of arrays."""
    with tempfile.TemporaryDirectory() as name:
        arrays = {
            "bytes": np.frombuffer(content, "|u1"),
            "shorts": np.asarray(numbers, "<i8").astype("<i2"),
            "numbers": np.asarray(numbers, "<i8").astype("<i4"),
            "positions": np.asarray(positions, "<i8").repeat(2).reshape(-1, 2),
        }
        write_arrays(Path(name, "made"), LAYOUT, arrays)
        return Path(name, f"made{SUFFIX}").read_bytes()


contents = st.binary(max_size=200) | st.builds(
    lambda unit, count, end: unit * count + end,
    st.binary(min_size=1, max_size=50),
    st.integers(0, 400),
    st.binary(max_size=20),
)
integers = st.lists(st.integers(-(2**62), 2**62), max_size=1500)
containers = st.builds(container, integers, integers, contents)


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Two contents, of which the second is the first with some ranges replaced."""
    base = target = draw(contents)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(target)))
        stop = draw(st.integers(start, len(target)))
        target = target[:start] + draw(contents) + target[stop:]
    return base, target


@settings(max_examples=examples(300), deadline=None)
@given(st.tuples(contents | containers, contents | containers) | edited())
def test_a_patch_makes_the_file_from_the_earlier_one(pair: tuple[bytes, bytes]) -> None:
    base, target = pair
    assert Patch(base, target).apply(base, len(target)) == target


@settings(max_examples=examples(200), deadline=None)
@given(contents, st.sampled_from([2, 4, 8]))
def test_sums_of_differences_are_the_content(content: bytes, width: int) -> None:
    differences = bytes(differences_of(content, width))
    assert len(differences) == len(content)
    assert bytes(sums_of(differences, width)) == content


def test_a_patch_is_small_where_little_changed() -> None:
    rng = np.random.default_rng(1)
    base = rng.bytes(20 * PIECE)
    target = base[: 9 * PIECE] + b"changed" + base[9 * PIECE + 100 :]
    assert len(Patch(base, target).frames) < len(target) / 50


def test_a_patch_of_shifted_integers_is_small() -> None:
    rng = np.random.default_rng(1)
    before = np.sort(rng.integers(0, 2**20, 3000))
    after = np.insert(before, 40, before[40]) + (np.arange(3001) > 40)
    base, target = (container(each.tolist(), each.tolist(), b"") for each in (before, after))
    patch = Patch(base, target)
    assert patch.apply(base, len(target)) == target
    assert len(patch.frames) < len(compress(target)) / 8


def test_rows_that_moved_within_the_prefix_are_found() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 255, (PIECE // 128, 128), np.uint8)
    base, target = (each.tobytes() for each in (rows, rows[rng.permutation(len(rows))]))
    assert len(Patch(base, target).frames) < len(target) / 8


def test_an_array_is_patched_from_the_array_of_its_name() -> None:
    rng = np.random.default_rng(3)
    content, numbers = rng.bytes(5 * PIECE), rng.integers(0, 2**30, 2000).tolist()
    base = container(numbers, numbers, b"")
    target = container(numbers, numbers, content)
    patch = Patch(base, target)
    assert patch.apply(base, len(target)) == target
    assert len(patch.frames) < len(content) * 1.01 + 500
    copied = sum(piece.size for piece in patch.pieces if not piece.bytes)
    *_, shorts, numbers_, positions = sections_of(target)
    assert copied == sum(each.stop - each.start for each in (shorts, numbers_, positions))


@settings(max_examples=examples(200), deadline=None)
@given(edited(), contents)
def test_another_earlier_file_makes_another_file_of_the_size_or_an_error(
    pair: tuple[bytes, bytes], other: bytes
) -> None:
    base, target = pair
    with suppress(DownloadDamaged):
        assert len(Patch(base, target).apply(other, len(target))) == len(target)


@settings(max_examples=examples(400), deadline=None)
@given(edited() | st.tuples(containers, containers), st.data())
def test_a_damaged_patch_never_makes_more_than_the_size(
    pair: tuple[bytes, bytes], data: st.DataObject
) -> None:
    base, target = pair
    patch = Patch(base, target)
    if patch.frames:
        position = data.draw(st.integers(0, len(patch.frames) - 1))
        damaged = bytearray(patch.frames)
        damaged[position] ^= 1 + position % 255
        patch.frames = data.draw(
            st.sampled_from([bytes(damaged), patch.frames[:position], b"", patch.frames + b"more"])
        )
    if patch.pieces:
        fields = dict.fromkeys(("start", "stop", "size", "offset", "bytes"), st.integers(0, 9000))
        number = data.draw(st.integers(0, len(patch.pieces) - 1))
        changes = data.draw(st.fixed_dictionaries({}, optional=fields))
        patch.pieces[number] = replace(patch.pieces[number], **changes)
    with suppress(DownloadDamaged):
        assert len(patch.apply(base, len(target))) == len(target)


def bomb(size: int) -> bytes:
    """Return a frame of zeros, much smaller than its content."""
    return compress(bytes(size))


def test_a_patch_of_many_more_pieces_than_the_size_needs_is_refused() -> None:
    patch = Patch(b"", b"")
    size = 2 * MAX_SECTIONS
    patch.frames = compress(b"x")
    patch.pieces = [msgspec.convert([0, 0, 1, 0, len(patch.frames), 0], PatchPiece)] * size
    with pytest.raises(DownloadDamaged, match=f"{size} pieces for {size} bytes"):
        patch.apply(b"", size)


@pytest.mark.parametrize("width", [0, 2, 4, 8])
def test_a_frame_of_more_than_its_size_is_refused(width: int) -> None:
    patch = Patch(b"", b"")
    patch.frames = bomb(50 * CHUNK)
    patch.pieces = [msgspec.convert([0, 0, 100, 0, len(patch.frames), width], PatchPiece)]
    with pytest.raises(DownloadDamaged, match="does not hold"):
        patch.apply(b"", 100)


def test_a_frame_that_refers_far_back_is_refused_without_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = np.random.default_rng(4).bytes(CHUNK)
    unpack(compress(content), tmp_path / "file", CHUNK)
    monkeypatch.setattr(frames, "PLAIN_WINDOW", frames.MIN_WINDOW)
    with pytest.raises(DownloadDamaged, match="too much memory"):
        unpack(compress(content), tmp_path / "file", CHUNK)


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([PatchPiece(0, 0, 99, 0, 20, 0)], "does not make 100 bytes"),
        (
            [PatchPiece(0, 1, 0, 0, 0, 0)] * (MAX_SECTIONS + 1)
            + [PatchPiece(0, 100, 100, 0, 0, 0)],
            "pieces",
        ),
        ([PatchPiece(0, 50, 100, 0, 0, 0)], "copies"),
        ([PatchPiece(20000, 20100, 100, 0, 0, 0)], "copies"),
        ([PatchPiece(0, 2 * PIECE + 1, 100, 0, 20, 0)], "larger"),
        ([PatchPiece(0, PIECE + 1, 100, 0, 20, 4)], "larger"),
        ([PatchPiece(0, 0, 0, 0, 20, 4), PatchPiece(0, 100, 100, 0, 0, 0)], "2 pieces for 100"),
        ([PatchPiece(0, PIECE, 1, 0, 20, 4)] * 100, "repeatedly"),
        ([PatchPiece(0, 0, 100, 0, 100 + (1 << 16) + 1, 0)], "too long"),
        ([PatchPiece(0, 50, 100, 0, 20, 0)], "cannot be decompressed"),
        ([PatchPiece(0, 50, 100, 7, 0, 0)], "copies"),
        ([PatchPiece(0, 50, 100, 1 << 20, 20, 0)], "truncated"),
    ],
)
def test_pieces_that_are_never_made_are_refused(pieces: list[PatchPiece], reason: str) -> None:
    patch = Patch(b"", b"")
    patch.pieces, patch.frames = pieces, b"no frame" * 10_000
    with pytest.raises(DownloadDamaged, match=reason):
        patch.apply(bytes(3 * PIECE), 100)


def test_the_ranges_of_a_file_are_its_arrays_with_small_ones_joined() -> None:
    numbers = list(range(PIECE))
    content = container(numbers, numbers, b"few")
    _, few, shorts, longs, positions = sections_of(content)
    assert cut(content) == [
        (0, few.stop),
        (shorts.start, shorts.stop),
        (longs.start, longs.stop),
        (positions.start, len(content)),
    ]
    _, first, *_ = sections_of(large := container(numbers, numbers, bytes(PIECE)))
    assert cut(large)[0] == (0, first.stop)
    assert cut(b"no container") == [(0, 12)]
    assert cut(b"") == [(0, 0)]


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
        unpack(frame + b"more", target, size)
    with pytest.raises(DownloadDamaged, match="cannot be decompressed"):
        unpack(b"no frame" * 10, target, size)
