"""First pages that a host with stuffed endpoints reaches, and places of a large sound service."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.searching import publish
from tests.support.stuffing import QUERIES, StuffedCatalogue

ENCODERS = {"static": (), "none": ("--no-semantic",)}


def bench_stuffing(changes: Sequence[str]) -> None:
    """Print both with vectors and by words, for the parameters of the ranking `NAME=VALUE`."""
    catalogue = StuffedCatalogue()
    options = [word for change in changes for word in ("--set", change)]
    print(f"\nof {QUERIES} queries each {' '.join(changes)}")
    print("encoder   first pages of the stuffer   of the sound service   its mean reciprocal rank")
    for encoder, choice in ENCODERS.items():
        with tempfile.TemporaryDirectory(prefix="ratecard-") as folder:
            arguments = ("--quiet", *choice, *options)
            snapshot = publish(Path(folder), catalogue.records, *arguments)
            stuffer, sound = (catalogue.places(snapshot, name) for name in catalogue.queries)
        print(
            f"{encoder:9} {stuffer.first_pages:26} {sound.first_pages:22} "
            f"{sound.reciprocal_rank:26.3f}"
        )
