"""What one setting of the ranking reaches on judged queries, where they are at hand."""

from __future__ import annotations

import json

import pytest

from indexer.__main__ import main
from tests.support.running import SHARED

RELEVANCE = SHARED / "relevance"


@pytest.mark.skipif(not RELEVANCE.exists(), reason="the shared judged queries are not here")
@pytest.mark.parametrize(
    ("corpus", "least"), [("stabletoolbench", 0.68), ("sealtools", 0.84), ("metatool", 0.56)]
)
def test_one_setting_reaches_the_promised_relevance(
    capsys: pytest.CaptureFixture[str], corpus: str, least: float
) -> None:
    folder = RELEVANCE / corpus
    files = ["--corpus", str(folder / "corpus.jsonl"), "--queries", str(folder / "queries.jsonl")]
    assert main(["evaluate", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"] >= least
