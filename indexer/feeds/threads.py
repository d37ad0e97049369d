"""Work of a feed outside of the event loop, which the deadline can leave behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T]) -> T:
    """Return the result of a function that runs in a daemon thread of its own.

    The executor of asyncio, and Python at its exit, would wait for a function that outlasts the
    deadline of the feed.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a cancelled future would refuse the late result

    def run() -> None:
        try:
            result = function()
        except Exception as error:  # noqa: BLE001  # raised where the function is awaited
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)
