"""A cache of what takes long to open: opened once in a thread, and closed when it is not used."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from service.errors import Overloaded

MAX_WAITING = 8
"""Keys that may wait to be opened, one after the other."""
IDLE = 60.0
"""Seconds after the last use, after which a value may be closed."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _OpenValue(NamedTuple, Generic[V]):
    value: V
    used_at: float


class _Opening(Generic[V]):
    """A value that a thread makes, for the requests that wait until `done`.

    The result of `done` is None: a value in it would stay open until the next garbage collection.
    """

    def __init__(self) -> None:
        self.done: asyncio.Future[None]
        self.values: list[V] = []


class OpenCache(Generic[K, V]):
    """Keeps the values of the last used keys open, at most `size` of them.

    `get` and `close_idle` may be called from any thread, `open` from one event loop at a time.
    """

    def __init__(self, size: int, name: str, full: str) -> None:
        self._size = size
        self._full = full
        """The message while too many keys wait."""
        self._entries: OrderedDict[K, _OpenValue[V]] = OrderedDict()
        self._lock = threading.Lock()
        self._opening: dict[K, _Opening[V]] = {}
        self._thread = ThreadPoolExecutor(1, name)

    def get(self, key: K) -> V | None:
        """Return the value of a key if it is open."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is None:
                return None
            self._entries[key] = entry._replace(used_at=time.monotonic())
            return entry.value

    async def open(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made in a thread on a miss.

        Requests for the same key wait for one thread, and all have its value, even if another key
        evicts that before they continue. Raises what `make` raises, and Overloaded while too many
        keys wait.
        """
        if (value := self.get(key)) is not None:
            return value
        opening = self._begin(key, make)
        await asyncio.shield(opening.done)
        return opening.values[0]

    def close_idle(self, is_kept: Callable[[K], bool] | None = None) -> None:
        """Close the values that nobody used lately, but for those of these keys."""
        with self._lock:
            oldest = time.monotonic() - IDLE
            for key, entry in list(self._entries.items()):
                if entry.used_at < oldest and not (is_kept and is_kept(key)):
                    del self._entries[key]

    def _begin(self, key: K, make: Callable[[], V]) -> _Opening[V]:
        """Return the opening of a key, which begins unless it is under way."""
        loop = asyncio.get_running_loop()
        opening = self._opening.get(key)
        if opening is None or opening.done.get_loop() is not loop:
            if len(self._opening) >= MAX_WAITING:
                raise Overloaded(self._full)
            opening = _Opening()
            opening.done = loop.run_in_executor(self._thread, self._make, key, make, opening.values)
            self._opening[key] = opening
            opening.done.add_done_callback(lambda done: self._end(key, done))
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
            self._entries[key] = _OpenValue(value, time.monotonic())
