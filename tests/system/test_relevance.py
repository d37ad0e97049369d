"""The relevance of the ranking on judged queries."""

from __future__ import annotations

import json

import pytest

from indexer.__main__ import main
from tests.support.running import SHARED

RELEVANCE = SHARED / "relevance"


@pytest.mark.skipif(not RELEVANCE.exists(), reason="the judged queries are not available")
@pytest.mark.parametrize(
    ("corpus", "minimum"), [("stabletoolbench", 0.68), ("sealtools", 0.84), ("metatool", 0.56)]
)
def test_ndcg_reaches_its_minimum_with_one_configuration(
    capsys: pytest.CaptureFixture[str], corpus: str, minimum: float
) -> None:
    folder = RELEVANCE / corpus
    files = ["--corpus", str(folder / "corpus.jsonl"), "--queries", str(folder / "queries.jsonl")]
    assert main(["evaluate", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"] >= minimum
