"""Vectors of texts that are kept between builds: each text is embedded once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.encoder.embedding_cache import EmbeddingCache, check_embeddings_file
from indexer.encoder.embeddings import CHUNK, EMBEDDED, Embeddings, text_key, write_embeddings
from indexer.errors import EmbeddingsUnavailable

Floats = npt.NDArray[np.float32]


class Model:
    """Embeds texts by their lengths, remembers which, and breaks down after so many."""

    def __init__(self, most: int = 10**9) -> None:
        self.texts: list[str] = []
        self._most = most

    def __call__(self, texts: Sequence[str]) -> Floats:
        if len(self.texts) + len(texts) > self._most:
            raise KeyboardInterrupt
        self.texts += texts
        return np.stack([vector_of(text) for text in texts])


def vector_of(text: str) -> Floats:
    return np.full(EMBEDDED, len(text), np.float32) + np.float32(text_key(text)[0] / 256)


def embed(folder: Path, texts: Sequence[str], model: Model, name: str = "one") -> Embeddings:
    folder.mkdir(exist_ok=True)
    with EmbeddingCache(folder / "kept.db", name) as cache:
        write_embeddings(folder, texts, lambda new: cache.vectors(new, model))
        cache.prune()
    return Embeddings(folder)


def rows_of(path: Path) -> int:
    with sqlite3.connect(path) as database:
        (count,) = database.execute("SELECT count(*) FROM vectors").fetchone()
    database.close()
    return int(count)


@given(st.lists(st.text(max_size=20), max_size=60))
def test_every_text_has_its_own_vector_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    model = Model()
    embeddings = embed(tmp_path_factory.mktemp("any"), texts, model)
    assert sorted(model.texts) == sorted(set(texts))
    asked = [text for text in reversed(texts) if text.strip()]
    if asked:
        expected = np.stack([vector_of(text) for text in asked]).astype(np.float16)
        assert (embeddings.of(asked) == expected).all()
    assert not embeddings.of([text for text in texts if not text.strip()]).any()


def test_the_next_run_embeds_what_is_new(tmp_path: Path) -> None:
    embed(tmp_path, ["a", "bb"], Model())
    model = Model()
    embeddings = embed(tmp_path, ["bb", "ccc", "a", "ccc"], model)
    assert model.texts == ["ccc"]
    assert embeddings.of(["a", "ccc"])[:, 0].astype(int).tolist() == [1, 3]


def test_a_run_that_is_killed_keeps_what_it_had_embedded(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(3 * CHUNK)]
    with pytest.raises(KeyboardInterrupt):
        embed(tmp_path, texts, Model(2 * CHUNK))
    model = Model()
    embed(tmp_path, texts, model)
    assert model.texts == texts[2 * CHUNK :]


def test_vectors_of_another_model_are_not_taken(tmp_path: Path) -> None:
    embed(tmp_path, ["a", "bb"], Model())
    model = Model()
    embed(tmp_path, ["a"], model, name="other")
    assert model.texts == ["a"]
    assert rows_of(tmp_path / "kept.db") == 1


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_database_is_replaced(tmp_path: Path, damage: str) -> None:
    path, texts = tmp_path / "kept.db", [f"text {number}" for number in range(200)]
    embed(tmp_path, texts, Model())
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[4096:] = bytes(byte ^ 0x55 for byte in content[4096:])
    path.write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    embeddings = embed(tmp_path, texts, Model())
    assert embeddings.of(["text 7"])[0, 0] == np.float16(vector_of("text 7")[0])


@pytest.mark.parametrize("content", [b"{}\n", b"no database" * 999, b"SQLite format 3\0"])
def test_a_file_of_others_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kept.db"
    path.write_bytes(content)
    with pytest.raises(EmbeddingsUnavailable, match=r"kept\.db is no file of vectors"):
        embed(tmp_path, ["a"], Model())
    assert path.read_bytes() == content


def test_a_database_of_others_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE vectors (car TEXT)")
    database.close()
    content = path.read_bytes()
    with pytest.raises(EmbeddingsUnavailable, match="is no file of vectors"):
        check_embeddings_file(path)
    with pytest.raises(EmbeddingsUnavailable, match="is no file of vectors"):
        embed(tmp_path, ["a"], Model())
    assert path.read_bytes() == content


def test_a_database_that_another_build_holds_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed(tmp_path, ["a", "bb"], Model())
    monkeypatch.setattr("indexer.encoder.embedding_cache.TIMEOUT", 0.1)
    holder = sqlite3.connect(tmp_path / "kept.db")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(EmbeddingsUnavailable, match="is locked; try again"):
        embed(tmp_path, ["a"], Model())
    holder.close()
    assert rows_of(tmp_path / "kept.db") == 2


def test_a_text_that_was_not_embedded_is_an_error(tmp_path: Path) -> None:
    embeddings = embed(tmp_path, ["a", "bb"], Model())
    for text in ("ccc", "dddd", "eeeee"):
        with pytest.raises(KeyError):
            embeddings.of(["a", text])


@pytest.mark.parametrize("damaged", [b"\0", np.full(EMBEDDED, np.nan, np.float16).tobytes()])
def test_a_vector_of_another_length_or_no_numbers_is_computed_again(
    tmp_path: Path, damaged: bytes
) -> None:
    embed(tmp_path, ["a", "bb"], Model())
    with sqlite3.connect(tmp_path / "kept.db") as database:
        database.execute("UPDATE vectors SET vector = ? WHERE key = ?", (damaged, text_key("a")))
    database.close()
    model = Model()
    embed(tmp_path, ["a", "bb"], model)
    assert model.texts == ["a"]


def test_texts_that_are_gone_are_removed_when_they_are_many(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    embed(tmp_path, [f"text {number}" for number in range(300)], Model())
    embed(tmp_path, [f"text {number}" for number in range(200)], Model())
    assert rows_of(path) == 300
    embed(tmp_path, [f"text {number}" for number in range(100)], Model())
    assert rows_of(path) == 100


def test_a_database_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "kept.db").mkdir()
    with pytest.raises(EmbeddingsUnavailable, match=r"kept\.db: .*name another file"):
        embed(tmp_path, ["a"], Model())
