"""Load over 32 keep-alive connections, from wrk or, without wrk, from an asyncio client."""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

CONNECTIONS = 32
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
SCRIPT = """
local targets = {}
for line in io.lines("%s") do targets[#targets + 1] = line end
local next = 0
request = function()
  next = next %% #targets + 1
  return wrk.format("GET", targets[next])
end
"""


class Measurement(Struct):
    """Responses per second, median and 99th percentile latency (ms), and bytes per response."""

    rate: float
    p50: float
    p99: float
    bytes: float


def load(address: str, targets: list[str], seconds: float, folder: Path) -> Measurement:
    """Request the targets round-robin for some seconds; raises SystemExit if a response fails."""
    if shutil.which("wrk"):
        return _by_wrk(address, targets, seconds, folder)
    return asyncio.run(_by_asyncio(address, targets, seconds))


def median(measurements: list[Measurement]) -> Measurement:
    """Return the median of each field."""
    return Measurement(
        *(
            statistics.median(getattr(each, name) for each in measurements)
            for name in Measurement.__struct_fields__
        )
    )


def _by_wrk(address: str, targets: list[str], seconds: float, folder: Path) -> Measurement:
    target_list, script = folder / "targets.txt", folder / "targets.lua"
    target_list.write_text("\n".join(targets))
    script.write_text(SCRIPT % target_list)
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "--latency"]
    if len(targets) > 1:
        command += ["-s", str(script)]
    output = subprocess.run(
        [*command, address + targets[0]], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"{address}{targets[0]}:\n{output}")
    rate = float(_match(r"Requests/sec:\s+([\d.]+)", output)[0])
    responses, size_read, unit = _match(r"(\d+) requests in [\d.]+\w+, ([\d.]+)(\w?)B read", output)
    size = float(size_read) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[unit] / int(responses)
    p50, p99 = (_match(rf"{part}%\s+([\d.]+)(us|ms|s)", output) for part in (50, 99))
    return Measurement(rate, float(p50[0]) * UNITS[p50[1]], float(p99[0]) * UNITS[p99[1]], size)


def _match(pattern: str, output: str) -> tuple[str, ...]:
    match = re.search(pattern, output)
    if match is None:
        raise SystemExit(f"no {pattern} in the output of wrk:\n{output}")
    return match.groups()


async def _by_asyncio(address: str, targets: list[str], seconds: float) -> Measurement:
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
