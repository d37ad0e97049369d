"""The lines that say why results are where they are."""

from __future__ import annotations

import re

from indexer.cli.results import describe_explanations
from service.schema.responses import Explanation, WordScore


def test_the_parts_of_a_line_add_up_to_the_score() -> None:
    words = [WordScore("wallets", "wallet", 3.0), WordScore("swap", "swap", 1.25)]
    explanation = Explanation(4.5, words, 0.5, 0.5, 0.25, is_exact_name=False)
    (line,) = describe_explanations([explanation], ["a"], 0)
    assert line == "1  a: 4.50 = 3.00 wallets + 1.25 swap + 0.50 similarity 0.50 - 0.25 size"
    parts = re.findall(r"([=+-]) ([\d.]+)", line)
    assert sum(-float(part) if sign == "-" else float(part) for sign, part in parts) == 4.5
