"""Small JSON files: decoded, or treated as absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.arrays.files import read_json


def test_a_file_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "numbers.json").write_text("[1, 2]")
    assert read_json(tmp_path / "numbers.json", list[int]) == [1, 2]


@pytest.mark.parametrize("content", [b"", b"[1,", b'["a"]', b"{}", b'["\xff"]', b"[" * 100_000])
def test_a_damaged_file_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "numbers.json").write_bytes(content)
    assert read_json(tmp_path / "numbers.json", list[int]) is None


def test_text_that_is_no_utf8_and_deep_nesting_are_none(tmp_path: Path) -> None:
    path = tmp_path / "texts.json"
    path.write_bytes(b'["\xff"]')
    assert read_json(path, list[str]) is None
    path.write_bytes(b"[" * 100_000)
    assert read_json(path, list) is None


def test_a_file_that_is_absent_or_a_folder_is_none(tmp_path: Path) -> None:
    assert read_json(tmp_path / "absent.json", list[int]) is None
    assert read_json(tmp_path, list[int]) is None
