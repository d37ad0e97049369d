"""Alternatives on a real catalogue: clones are found, look-alikes of another function are not."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from pathlib import Path

import pytest

from service.snapshot.alternatives import find_alternatives
from service.snapshot.snapshot import open_snapshot
from tests.support.running import SHARED, Json, build_snapshot_alone

CATALOGUE = SHARED / "bazaar" / "resources_v1_2025-12.json"
PLANTED = 50
OTHERS = {
    "current": "historical",
    "buy": "sell",
    "create": "delete",
    "image": "audio",
    "price": "holders",
    "token": "wallet",
    "weather": "traffic",
    "validate": "generate",
    "tweets": "podcasts",
    "mint": "burn",
    "crypto": "football",
    "search": "translate",
    "analysis": "forecast",
    "news": "recipes",
    "video": "invoice",
    "market": "restaurant",
    "transactions": "reviews",
    "email": "postcode",
    "text": "music",
    "users": "flights",
    "trending": "deprecated",
    "random": "encrypted",
    "data": "images",
    "check": "rename",
    "fetch": "archive",
    "get": "remove",
}
"""Objects and verbs, and those of another function."""

pytestmark = pytest.mark.skipif(not CATALOGUE.exists(), reason="the real data is not available")


def plant(item: Json, host: str, text: str, rng: random.Random) -> Json:
    """Return a listing at another host, with another path, text, payee and price."""
    planted: Json = json.loads(json.dumps(item))
    planted["resource"] = f"https://{host}/api/run/{rng.randrange(10**6)}"
    amount, payee = str(rng.randrange(1, 100) * 1000), f"0x{rng.getrandbits(160):040x}"
    entry = {"description": text, "resource": planted["resource"], "maxAmountRequired": amount}
    planted["accepts"] = [each | entry | {"payTo": payee} for each in planted["accepts"]]
    return planted


def test_clones_find_each_other_and_look_alikes_do_not(tmp_path: Path) -> None:
    rng = random.Random(1)  # noqa: S311  # the same in every run
    items = json.loads(CATALOGUE.read_text())["resources"]
    of_text: dict[str, Json] = {}
    for item in items:
        text = item["accepts"][0].get("description") or ""
        if len({*re.findall(r"\w+", text.lower())}) >= 5 and item["resource"].startswith("https:"):
            of_text.setdefault(text, item)
    pool = [pair for pair in of_text.items() if "questflow" not in pair[0].lower()]
    rng.shuffle(pool)
    pairs: list[tuple[str, str, Json]] = []
    for number, (text, item) in enumerate(pool[:PLANTED]):
        kept = [word for word in text.split() if rng.random() > 0.2] or text.split()
        turn = rng.randrange(len(kept))
        clone = plant(item, f"clone{number}.com", " ".join(kept[turn:] + kept[:turn]), rng)
        pairs.append(("clone", item["resource"], clone))
    for text, item in pool:
        found = (word for word in OTHERS if re.search(rf"\b{word}\b", text, re.IGNORECASE))
        if (word := next(found, "")) and len(pairs) < 2 * PLANTED:
            other = re.sub(rf"\b{word}\b", OTHERS[word], text, flags=re.IGNORECASE)
            pairs.append(
                ("other", item["resource"], plant(item, f"other{len(pairs)}.com", other, rng))
            )
    assert len(pairs) == 2 * PLANTED
    records = [*items, *(planted for _, _, planted in pairs)]
    artifacts = build_snapshot_alone(tmp_path, records, max_rejects=Fraction(1, 20))
    snapshot, counts = open_snapshot(artifacts), {"clone": 0, "other": 0}
    for kind, original, planted in pairs:
        own, copy = (snapshot.endpoints.of_url(url) for url in (original, planted["resource"]))
        for one, another in ((own, copy), (copy, own)):
            alternatives = find_alternatives(snapshot, snapshot.embedded, one[0]) if one else []
            counts[kind] += bool({each.ordinal for each in alternatives} & {*another})
    precision, recall = counts["clone"] / sum(counts.values()), counts["clone"] / 2 / PLANTED
    print(f"precision {precision:.2f}, recall {recall:.2f} of {counts}")  # noqa: T201  # a figure
    assert precision >= 0.8
    assert recall >= 0.6
