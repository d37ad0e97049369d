"""The store of facts: its spool on a full disk."""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from indexer.sources.fact_store import DIGEST_SIZE, FactStore

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is always full")
def test_facts_that_a_full_disk_cannot_take_are_dropped_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", faults.append)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FULL.open("wb"))
    store = FactStore()
    store.add(bytes(DIGEST_SIZE), b"facts")
    del store
    gc.collect()
    assert not faults
