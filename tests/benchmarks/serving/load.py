"""Load over 32 keep-alive connections."""

from __future__ import annotations

import asyncio
import statistics
import time
from urllib.parse import urlsplit

from msgspec import Struct

CONNECTIONS = 32


class Measurement(Struct):
    """Responses per second, median and 99th percentile latency (ms), and bytes per response."""

    rate: float
    p50: float
    p99: float
    bytes: float


def load(address: str, targets: list[str], seconds: float) -> Measurement:
    """Request the targets round-robin for some seconds; raises SystemExit if a response fails."""
    return asyncio.run(_request(address, targets, seconds))


def median(measurements: list[Measurement]) -> Measurement:
    """Return the median of each field."""
    return Measurement(
        *(
            statistics.median(getattr(each, name) for each in measurements)
            for name in Measurement.__struct_fields__
        )
    )


async def _request(address: str, targets: list[str], seconds: float) -> Measurement:
    host = urlsplit(address)
    times: list[float] = []
    size = 0
    deadline = time.perf_counter() + seconds

    async def send_requests(first: int) -> None:
        nonlocal size
        reader, writer = await asyncio.open_connection(host.hostname, host.port)
        number = first
        while (started := time.perf_counter()) < deadline:
            target = targets[number % len(targets)]
            writer.write(f"GET {target} HTTP/1.1\r\nHost: {host.netloc}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{address}{target}: {head!r}")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append((time.perf_counter() - started) * 1e3)
            size += len(head) + length
            number += CONNECTIONS
        writer.close()

    await asyncio.gather(*(send_requests(number) for number in range(CONNECTIONS)))
    cuts = statistics.quantiles(times, n=100)
    return Measurement(len(times) / seconds, cuts[49], cuts[98], size / len(times))
