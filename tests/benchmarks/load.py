"""Load: what a server answers to 32 kept-alive connections, by wrk or, without it, by ourselves."""

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


class Measured(Struct):
    """Answers in a second, milliseconds of the median and of the 99th percentile, bytes each."""

    rate: float
    p50: float
    p99: float
    bytes: float


def load(address: str, targets: list[str], seconds: float, folder: Path) -> Measured:
    """Ask for these targets in turn for some seconds; raises SystemExit if any answer fails."""
    if shutil.which("wrk"):
        return _by_wrk(address, targets, seconds, folder)
    return asyncio.run(_by_ourselves(address, targets, seconds))


def median(measured: list[Measured]) -> Measured:
    """The median of each figure."""
    return Measured(
        *(
            statistics.median(getattr(each, name) for each in measured)
            for name in Measured.__struct_fields__
        )
    )


def _by_wrk(address: str, targets: list[str], seconds: float, folder: Path) -> Measured:
    listed, script = folder / "targets.txt", folder / "targets.lua"
    listed.write_text("\n".join(targets))
    script.write_text(SCRIPT % listed)
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "--latency"]
    if len(targets) > 1:
        command += ["-s", str(script)]
    said = subprocess.run(
        [*command, address + targets[0]], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"{address}{targets[0]}:\n{said}")
    rate = float(_found(r"Requests/sec:\s+([\d.]+)", said)[0])
    answers, read, unit = _found(r"(\d+) requests in [\d.]+\w+, ([\d.]+)(\w?)B read", said)
    size = float(read) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[unit] / int(answers)
    p50, p99 = (_found(rf"{part}%\s+([\d.]+)(us|ms|s)", said) for part in (50, 99))
    return Measured(rate, float(p50[0]) * UNITS[p50[1]], float(p99[0]) * UNITS[p99[1]], size)


def _found(pattern: str, said: str) -> tuple[str, ...]:
    match = re.search(pattern, said)
    if match is None:
        raise SystemExit(f"wrk did not say {pattern}:\n{said}")
    return match.groups()


async def _by_ourselves(address: str, targets: list[str], seconds: float) -> Measured:
    host = urlsplit(address)
    times: list[float] = []
    size = 0
    deadline = time.perf_counter() + seconds

    async def ask(first: int) -> None:
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

    await asyncio.gather(*(ask(number) for number in range(CONNECTIONS)))
    cuts = statistics.quantiles(times, n=100)
    return Measured(len(times) / seconds, cuts[49], cuts[98], size / len(times))
