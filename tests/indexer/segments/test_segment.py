"""Segments: written, merged, mapped and compiled, in whatever parts."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.columns.records import ENDPOINT_FIELDS, SERVICE_FIELDS, Contents
from indexer.encoder.packaged import load_encoder, write_encoder
from indexer.record_store import KEY_SIZE, arrays_path
from indexer.search.parts import place_documents, segment_parts
from indexer.search.postings import compile_postings
from indexer.segments.segment import (
    SegmentParameters,
    SegmentWriter,
    SelectedServices,
    merge_segments,
    read_segment,
)
from indexer.segments.texts import TokenFields
from service.errors import SnapshotDamaged
from service.search.analysis import term_of, words_of
from tests.support.running import examples
from tests.support.searching import IDENTIFIERS, WORDS, write_segment

texts = st.lists(st.sampled_from([*WORDS[:9], *IDENTIFIERS[:2], "the", "é"]), max_size=9).map(
    " ".join
)
documents = st.lists(st.tuples(texts.map("x{}".format), texts, texts), min_size=1, max_size=12)
services = st.builds(
    Contents,
    st.tuples(*[texts] * len(SERVICE_FIELDS)),
    st.lists(st.tuples(*[texts] * len(ENDPOINT_FIELDS)), max_size=3),
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("segments") / "encoder"
    write_encoder(folder, load_encoder())
    return folder


def write(path: Path, rows: list[tuple[int, Contents]], encoder: Path | None) -> bytes:
    """Write a segment of numbered services; return the content of its file."""
    name = "" if encoder is None else "static"
    writer = SegmentWriter(path, SegmentParameters(name), encoder)
    for number, contents in rows:
        writer.add(number.to_bytes(KEY_SIZE, "big"), contents)
    writer.finish()
    return arrays_path(path).read_bytes()


@given(st.text(max_size=40))
@example("ж" * 70_000)
def test_indexing_and_queries_produce_the_same_terms(text: str) -> None:
    fields = TokenFields(("name",))
    fields.add((text,))
    name = fields.analyse().fields["name"]
    terms = Counter(term_of(word.text).encode() for word in words_of(text))
    assert dict(zip(name.terms.texts(), name.counts.tolist(), strict=True)) == terms
    assert name.terms.texts() == sorted(terms)


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(services, min_size=1, max_size=8), st.data(), st.booleans())
def test_merged_services_have_the_segment_that_their_texts_would_have(
    encoder: Path, contents: list[Contents], data: st.DataObject, is_encoded: bool
) -> None:
    used = encoder if is_encoded else None
    rows = list(enumerate(contents))
    cuts = data.draw(st.lists(st.integers(1, len(rows) - 1), max_size=2)) if len(rows) > 1 else []
    bounds = sorted({0, *cuts, len(rows)})
    kept = data.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1))
    with tempfile.TemporaryDirectory() as name:
        folder, selections = Path(name), []
        for start, stop in pairwise(bounds):
            own = [number - start for number in range(start, stop) if number in kept]
            write(folder / str(start), rows[start:stop], used)
            if own:
                selections.append(SelectedServices(folder / str(start), np.array(own)))
        merge_segments(folder / "merged", selections)
        direct = write(folder / "direct", [rows[number] for number in sorted(kept)], used)
        assert arrays_path(folder / "merged").read_bytes() == direct


def test_the_arrays_of_a_segment_are_mapped(tmp_path: Path) -> None:
    segment = write_segment(tmp_path / "segment", [("one two", "two", "")])
    for field in segment.fields.values():
        arrays = (*field.terms, field.sizes, field.documents, field.counts)
        assert not any(array.flags.owndata for array in arrays)


def test_a_segment_without_its_end_is_damaged(tmp_path: Path) -> None:
    write_segment(tmp_path / "segment", [("one two", "two", "")])
    path = arrays_path(tmp_path / "segment")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SnapshotDamaged):
        read_segment(tmp_path / "segment")


@settings(max_examples=examples(15), deadline=None)
@given(documents, st.data())
def test_segments_compile_to_the_same_bytes_as_one(
    documents: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(documents)), max_size=3))
    bounds = sorted([0, *cuts, len(documents)])
    names, prior = [name for name, _, _ in documents], np.linspace(0, 1, len(documents))
    with tempfile.TemporaryDirectory() as name:
        ordinals = np.arange(len(documents), dtype=np.int32)
        placed = place_documents(np.zeros_like(ordinals), np.zeros_like(ordinals))
        for target, stops in (("parts", bounds), ("one", [0, len(documents)])):
            parts = (
                part
                for number, (start, stop) in enumerate(pairwise(stops))
                for part in segment_parts(
                    write_segment(Path(name) / f"{target} {number}", documents[start:stop]),
                    ordinals[start:stop],
                    placed,
                )
            )
            compile_postings(parts, names, prior, placed, Path(name) / target)
        one, divided = ((Path(name) / target).read_bytes() for target in ("one", "parts"))
        assert one == divided
