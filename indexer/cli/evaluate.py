"""`evaluate`: judges the ranking of a corpus by queries."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import fmean

import msgspec

from indexer.cli.options import Command, add_ranking_options, parse_ranking, read_count
from indexer.cli.terminal import answer
from indexer.relevance import NDCG_DEPTH, Judgement, evaluate, interval

HEADER = "queries   nDCG@10   95 % of resamples   recall@24"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the corpus, the queries and the form of the answer."""
    parser.add_argument(
        "--corpus",
        required=True,
        metavar="FILE",
        help="JSON lines of services: id, name, description, category, domain, endpoints",
    )
    parser.add_argument(
        "--queries",
        required=True,
        metavar="FILE",
        help='JSON lines of queries: {"query":"...","relevant":{"document id":grade}}',
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--worst", type=read_count, metavar="N", help="show the N queries with the worst nDCG"
    )
    add_ranking_options(parser)


def run(options: argparse.Namespace) -> int:
    """Build a snapshot of the corpus in a temporary folder, and judge each query."""
    judgements = evaluate(options.corpus, options.queries, parse_ranking(options))
    count = len(judgements)
    ndcg = fmean(judgement.ndcg for judgement in judgements)
    recall = fmean(judgement.recall for judgement in judgements)
    low, high = interval([judgement.ndcg for judgement in judgements])
    worst = sorted(judgements, key=lambda judgement: (judgement.ndcg, judgement.recall))
    worst = worst[: options.worst or 0]
    if options.json:
        figures = {"queries": count, "ndcg@10": ndcg, "recall@24": recall, "interval": (low, high)}
        return answer(msgspec.json.encode(figures | ({"worst": worst} if worst else {})))
    row = f"{count:7}   {ndcg:7.4f}   {low:.4f} to {high:.4f}   {recall:9.4f}"
    lines = [line for judgement in worst for line in _describe(judgement)]
    return answer("\n".join([HEADER, row, *lines]))


def _describe(judgement: Judgement) -> Iterator[str]:
    yield ""
    yield f"{judgement.ndcg:.4f}  {judgement.query}"
    yield f"  wanted    {', '.join(judgement.wanted)}"
    yield f"  returned  {', '.join(judgement.returned[:NDCG_DEPTH]) or 'nothing'}"


EVALUATE = Command(
    "judge the ranking of a corpus by queries",
    (
        "evaluate --corpus corpus.jsonl --queries queries.jsonl",
        "evaluate --corpus corpus.jsonl --queries queries.jsonl --set similarity_weight=6",
    ),
    add_options,
    run,
)
