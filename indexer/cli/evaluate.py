"""`evaluate`: judges the ranking of a corpus by queries."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import msgspec

from indexer.cli.terminal import answer
from indexer.relevance import NDCG_DEPTH, Judgement, evaluate, mean

SUMMARY = "judge the ranking of a corpus by queries"
EXAMPLES: tuple[str, ...] = ("evaluate --corpus corpus.jsonl --queries queries.jsonl",)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the corpus, the queries and the form of the answer."""
    parser.add_argument(
        "--corpus",
        required=True,
        metavar="FILE",
        help="JSON lines of documents: id, name, description, category",
    )
    parser.add_argument(
        "--queries",
        required=True,
        metavar="FILE",
        help='JSON lines of queries: {"query":"...","relevant":{"document id":grade}}',
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--worst", type=int, default=0, metavar="N", help="show the N queries with the worst nDCG"
    )


def run(options: argparse.Namespace) -> int:
    """Build a snapshot of the corpus in a temporary folder, and judge each query."""
    judgements = evaluate(options.corpus, options.queries)
    ndcg = mean([judgement.ndcg for judgement in judgements])
    recall = mean([judgement.recall for judgement in judgements])
    worst = sorted(judgements, key=lambda judgement: (judgement.ndcg, judgement.recall))
    worst = worst[: options.worst]
    if options.json:
        figures = {"queries": len(judgements), "ndcg@10": ndcg, "recall@24": recall}
        return answer(msgspec.json.encode(figures | ({"worst": worst} if worst else {})))
    lines = [
        "queries   nDCG@10   recall@24",
        f"{len(judgements):7}   {ndcg:7.4f}   {recall:9.4f}",
        *(line for judgement in worst for line in _describe(judgement)),
    ]
    return answer("\n".join(lines))


def _describe(judgement: Judgement) -> Iterable[str]:
    yield ""
    yield f"{judgement.ndcg:.4f}  {judgement.query}"
    yield f"  wanted    {', '.join(judgement.wanted)}"
    yield f"  returned  {', '.join(judgement.returned[:NDCG_DEPTH]) or 'nothing'}"
