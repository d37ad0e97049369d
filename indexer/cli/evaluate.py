"""`evaluate`: judges the ranking of a corpus by queries."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from indexer.cli.options import Command, add_flags, add_ranking_options, given, parse_ranking
from indexer.cli.terminal import answer
from indexer.errors import Misuse
from indexer.relevance import NDCG_DEPTH, Judgement, evaluate, evaluate_warnings, interval
from indexer.text import shorten

HEADER = "queries   nDCG@10   95 % of resamples   recall@24"
MAX_CHANGES = 5


class EvaluationOptions(Struct, frozen=True):
    """The options of an evaluation that have a bound.

    worst (--worst N): show the N queries with the worst nDCG below 1
    """

    worst: Annotated[int, Meta(ge=0)] = 0


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
        "--unanswerable",
        action="store_true",
        help="judge the warnings that nothing matches well, with half of the documents removed",
    )
    add_flags(parser, EvaluationOptions)
    add_ranking_options(parser)
    parser.add_argument(
        "--compare",
        action="append",
        metavar="NAME=VALUE",
        help="judge a second ranking, which differs in this, and show where it is better and worse",
    )


def run(options: argparse.Namespace) -> int:
    """Build snapshots of the corpus in a temporary folder, and judge each query."""
    rankings = [parse_ranking(options)]
    bounds = EvaluationOptions(**given(options, EvaluationOptions))
    if options.unanswerable:
        if options.compare or bounds.worst:
            raise Misuse("--unanswerable goes with neither --compare nor --worst; leave them out")
        warnings = evaluate_warnings(options.corpus, options.queries, rankings[0])
        row = (f"{value:{len(name)}.4g}" for name, value in warnings.items())
        text = "\n".join(map("   ".join, (warnings, row)))
        return answer(msgspec.json.encode(warnings) if options.json else text)
    if options.compare:
        rankings.append(parse_ranking(options, options.compare))
    runs = [evaluate(options.corpus, options.queries, ranking) for ranking in rankings]
    measured = [*map(_measure, runs)]
    worst = [judgement for judgement in runs[0] if judgement.ndcg < 1]
    worst.sort(key=lambda judgement: (judgement.ndcg, judgement.recall))
    worst = worst[: bounds.worst]
    comparison = _compare(*runs) if options.compare else None
    if options.json:
        figures = measured[0] | ({"worst": worst} if bounds.worst else {})
        if comparison is not None:
            figures |= {"compared": measured[1], "comparison": comparison}
        return answer(msgspec.json.encode(figures))
    lines = [HEADER, _describe_run(measured[0])]
    if options.compare:
        lines.append(f"{_describe_run(measured[1])}   with {', '.join(options.compare)}")
    lines += [line for judgement in worst for line in _describe(judgement)]
    return answer("\n".join([*lines, *(_describe_comparison(comparison) if comparison else ())]))


class QueryChange(Struct):
    """A query that two rankings answer differently; `ndcg@10` of both."""

    query: str
    before: float
    after: float


class RankingComparison(Struct):
    """How a second ranking differs: the mean of its gain in nDCG@10, and the queries that changed.

    `better` and `worse` are counts; at most MAX_CHANGES queries are in `most_better` and
    `most_worse`, the largest changes first.
    """

    gain: float
    interval: tuple[float, float]
    better: int
    worse: int
    most_better: list[QueryChange]
    most_worse: list[QueryChange]


def _measure(judgements: Sequence[Judgement]) -> dict[str, Any]:
    ndcg = [judgement.ndcg for judgement in judgements]
    return {
        "queries": len(judgements),
        "ndcg@10": fmean(ndcg),
        "recall@24": fmean([judgement.recall for judgement in judgements]),
        "interval": interval(ndcg),
    }


def _compare(before: Sequence[Judgement], after: Sequence[Judgement]) -> RankingComparison:
    changes = [
        QueryChange(left.query, left.ndcg, right.ndcg)
        for left, right in zip(before, after, strict=True)
        if left.ndcg != right.ndcg
    ]
    changes.sort(key=lambda change: change.after - change.before)
    worse = [change for change in changes if change.after < change.before]
    better = [change for change in reversed(changes) if change.after > change.before]
    gains = [right.ndcg - left.ndcg for left, right in zip(before, after, strict=True)]
    return RankingComparison(
        fmean(gains),
        interval(gains),
        len(better),
        len(worse),
        better[:MAX_CHANGES],
        worse[:MAX_CHANGES],
    )


def _describe_run(figures: dict[str, Any]) -> str:
    low, high = figures["interval"]
    ndcg, recall = figures["ndcg@10"], figures["recall@24"]
    return f"{figures['queries']:7}   {ndcg:7.4f}   {low:.4f} to {high:.4f}   {recall:9.4f}"


def _describe_comparison(comparison: RankingComparison) -> Iterable[str]:
    low, high = comparison.interval
    yield ""
    yield (
        f"the second gains {comparison.gain:+.4f} (95 %: {low:+.4f} to {high:+.4f}); it is better "
        f"for {comparison.better:,} queries and worse for {comparison.worse:,}"
    )
    for change in (*comparison.most_better, *comparison.most_worse):
        yield f"  {change.before:.4f} → {change.after:.4f}  {shorten(change.query)}"


def _describe(judgement: Judgement) -> Iterable[str]:
    yield ""
    yield f"{judgement.ndcg:.4f}  {judgement.query}"
    yield f"  wanted    {', '.join(judgement.wanted)}"
    yield f"  returned  {', '.join(judgement.returned[:NDCG_DEPTH]) or 'nothing'}"


EVALUATE = Command(
    "judge the ranking of a corpus by queries",
    (
        "evaluate --corpus corpus.jsonl --queries queries.jsonl",
        "evaluate --corpus corpus.jsonl --queries queries.jsonl --compare encoder=none",
        "evaluate --corpus corpus.jsonl --queries queries.jsonl --unanswerable",
    ),
    add_options,
    run,
)
