"""A cache of what takes long to open: opened once in a thread, and closed when it is not used."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from service.errors import Overloaded

MAX_WAITING = 8
"""Keys that may wait to be opened, one after the other."""
IDLE = 60.0
"""Seconds after the last use, after which a value may be closed."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class OpenCache(Generic[K, V]):
    """Keeps the values of the last used keys open, at most `size` of them.

    `get` and `close_idle` may be called from any thread, `open` from one event loop at a time.
    """

    def __init__(self, size: int, name: str, full: str) -> None:
        self._size = size
        self._full = full
        """The message while too many keys wait."""
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()
        """The values and the times of their last use, in this order."""
        self._lock = threading.Lock()
        self._opening: dict[K, tuple[asyncio.Future[None], list[V]]] = {}
        """A future for each key that a thread opens, and a list for the value: in the future the
        value would stay open until the next garbage collection."""
        self._thread = ThreadPoolExecutor(1, name)

    def get(self, key: K) -> V | None:
        """Return the value of a key if it is open."""
        with self._lock:
            if key not in self._entries:
                return None
            value, _ = self._entries.pop(key)
            self._entries[key] = value, time.monotonic()
            return value

    async def open(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made in a thread on a miss.

        Requests for the same key wait for one thread, and all have its value, even if another key
        evicts that before they continue. Raises what `make` raises, and Overloaded while too many
        keys wait.
        """
        if (value := self.get(key)) is not None:
            return value
        done, values = self._begin(key, make)
        await asyncio.shield(done)
        return values[0]

    def close_idle(self, is_kept: Callable[[K], bool] | None = None) -> None:
        """Close the values that were not used for IDLE seconds, unless their keys are kept."""
        with self._lock:
            oldest = time.monotonic() - IDLE
            for key, (_, used_at) in list(self._entries.items()):
                if used_at < oldest and not (is_kept and is_kept(key)):
                    del self._entries[key]

    def _begin(self, key: K, make: Callable[[], V]) -> tuple[asyncio.Future[None], list[V]]:
        """Return the opening of a key, which begins unless it is under way."""
        loop = asyncio.get_running_loop()
        opening = self._opening.get(key)
        if opening is None or opening[0].get_loop() is not loop:
            if len(self._opening) >= MAX_WAITING:
                raise Overloaded(self._full)
            values: list[V] = []
            done = loop.run_in_executor(self._thread, self._make, key, make, values)
            opening = self._opening[key] = done, values
            done.add_done_callback(lambda ended: self._end(key, ended))
        return opening

    def _end(self, key: K, done: asyncio.Future[None]) -> None:
        self._opening.pop(key, None)
        if not done.cancelled():
            done.exception()  # all clients may be gone, which is no error

    def _make(self, key: K, make: Callable[[], V], values: list[V]) -> None:
        with self._lock:  # make room first: no more than `size` are open at any time
            while len(self._entries) >= self._size:
                self._entries.popitem(last=False)
        value = make()
        values.append(value)
        with self._lock:
            self._entries[key] = value, time.monotonic()
