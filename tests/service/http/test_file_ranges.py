"""The rate at which files are sent; `tests/service/api/test_downloads.py` has the rest."""

from __future__ import annotations

import asyncio

import pytest

from service.http.file_ranges import RATE, Transfers


def test_all_transfers_together_keep_to_one_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleep, sleeping = asyncio.sleep, asyncio.Lock()
    slept: list[float] = []

    async def note(seconds: float) -> None:
        assert not sleeping.locked()
        async with sleeping:
            slept.append(seconds)
            await sleep(0)

    async def run() -> None:
        transfers = Transfers()
        await asyncio.gather(*(transfers.wait(RATE // part) for part in (2, 4, 8)))

    monkeypatch.setattr(asyncio, "sleep", note)
    asyncio.run(run())
    assert slept == [1 / 2, 1 / 4, 1 / 8]
