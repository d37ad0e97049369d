"""The outcome of an evaluation, for a person or for a script."""

from __future__ import annotations

import msgspec

from indexer.relevance import Judgement, mean


def summarise_evaluation(judgements: list[Judgement], worst: int, *, as_json: bool) -> str:
    """The means over all queries, and the queries that fared worst, the first of equals first."""
    ndcg = mean([judgement.ndcg for judgement in judgements])
    recall = mean([judgement.recall for judgement in judgements])
    failing = sorted(judgements, key=lambda judgement: (judgement.ndcg, judgement.recall))[:worst]
    if as_json:
        figures = {"queries": len(judgements), "ndcg@10": ndcg, "recall@24": recall}
        listed = {"worst": failing} if worst else {}
        return msgspec.json.encode(figures | listed).decode()
    lines = [
        "queries   nDCG@10   recall@24",
        f"{len(judgements):7}   {ndcg:7.4f}   {recall:9.4f}",
    ]
    for judgement in failing:
        lines += [
            "",
            f"{judgement.ndcg:.4f}  {judgement.query}",
            f"  wanted    {_listed(list(judgement.wanted))}",
            f"  returned  {_listed(judgement.returned[:10]) or 'nothing'}",
        ]
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    return ", ".join(names)
