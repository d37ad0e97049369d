"""Clients that load a service: honest searchers, and five kinds that mean harm.

    python -m tests.support.hostile_clients PORT SECONDS KIND...

runs a client of each kind that is named, each from an address of its own, until the time is over.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import SO_RCVBUF, SOCK_STREAM, SOL_SOCKET, socket
from urllib.parse import urlencode

Client = Callable[["Service"], Awaitable[None]]

HOST = b"host: localhost\r\n\r\n"
WORDS = ["weather", "price", "search", "image", "token", "market", "harbour", "tide", "data", "map"]
DOWNLOADS = 8
"""Slow downloads of a client: eight such clients take all places of a worker."""
FIRST_BYTES = 4096


class Service:
    """The address of a service, and random requests to it."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self._own_address = f"127.0.1.{seed + 1}"
        self.rng = random.Random(seed)  # noqa: S311  # no secret

    def query(self, words: int) -> str:
        return " ".join([*self.rng.choices(WORDS, k=words), str(self.rng.random())])

    def search(self, limit: int = 24) -> bytes:
        """Return a search that no cache has."""
        query = urlencode({"q": self.query(2), "limit": limit})
        return get(f"/v1/search/services?{query}")

    async def connect(self, buffer: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, with a small receive buffer where one is given."""
        connection = socket(type=SOCK_STREAM)
        connection.setblocking(False)
        if buffer:
            connection.setsockopt(SOL_SOCKET, SO_RCVBUF, buffer)
        connection.bind((self._own_address, 0))
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=connection, limit=buffer or 2**20)


def get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\n".encode() + HOST


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read a response, and return its status and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, _, length = head.partition(b"content-length: ")
    body = await reader.readexactly(int(length.split(b"\r", 1)[0] or b"0"))
    return int(head.split(b" ", 2)[1]), body


async def search(service: Service) -> None:
    """Search, read the response, and search again."""
    reader, writer = await service.connect()
    while True:
        writer.write(service.search())
        await read_response(reader)


async def read_slowly(service: Service) -> None:
    """Ask for the largest page, and read 30 bytes a second."""
    reader, writer = await service.connect(FIRST_BYTES)
    writer.write(get(f"/v1/services?limit=200&x={service.rng.random()}"))
    while await reader.read(30):
        await asyncio.sleep(1)
    writer.close()


async def pipeline(service: Service) -> None:
    """Send many requests, read nothing, and now and then close amid the responses."""
    _, writer = await service.connect(FIRST_BYTES)
    writer.write(b"".join(service.search(200) for _ in range(50)))
    await asyncio.sleep(service.rng.choice((0.05, 0.5, 90)))
    writer.transport.abort()


async def ask_for_much(service: Service) -> None:
    """Ask for the most that a request may cost, and read it."""
    reader, writer = await service.connect()
    while True:
        long_query = urlencode({"q": service.query(200)})
        unique = f"x={service.rng.random()}"
        for target in (
            f"/v1/services?limit=200&{unique}",
            f"/v1/search/services?limit=200&explain=true&{long_query}",
            f"/v1/search/endpoints?limit=200&perService=0&{long_query}",
            f"/v1/services?facets=category,network,scheme,integrationType,tag,provider&{unique}",
            f"/discovery/resources?limit=1000&{unique}",
            f"/services/many?{long_query}",
            f"/?{long_query}",
            "/metrics",
        ):
            writer.write(get(target))
            await read_response(reader)


async def download_slowly(service: Service) -> None:
    """Begin many downloads, and read 30 bytes a second of each."""
    reader, writer = await service.connect()
    writer.write(get("/v1/snapshots/current"))
    _, body = await read_response(reader)
    snapshot_id = body.partition(b'"id":"')[2][:20].decode()
    connections = [await service.connect(FIRST_BYTES) for _ in range(DOWNLOADS)]
    for _, download in connections:
        download.write(get(f"/v1/snapshots/{snapshot_id}.tar.zst"))
    while all([await reader.read(30) for reader, _ in connections]):
        await asyncio.sleep(1)
    for _, each in (*connections, (reader, writer)):
        each.transport.abort()


def junk(service: Service) -> list[bytes]:
    """Return requests that are malformed, or nearly."""
    post = b"POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\naccept: application/json\r\n"
    messages = (
        b"[" * 60_000,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_services",'
        b'"arguments":{"query":["' + b"a" * 50_000 + b'"]}}}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"tools/list"}',
        service.rng.randbytes(5000),
    )
    return [
        b"junk\r\n\r\n",
        service.rng.randbytes(3000) + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"a:b\r\n" * 20_000 + b"\r\n",
        get("/" + "a/" * 30_000),
        get("/v1/snapshots/" + "-.json" * 10_000 + ".tar.zst"),
        get("/v1/services?" + "a=b&" * 15_000),
        get("/v1/search/services?q=" + "%ff" * 5000),
        *(post + b"content-length: %d\r\n" % len(body) + HOST + body for body in messages),
        post + b"transfer-encoding: chunked\r\n" + HOST + b"fffffff\r\n" + b"x" * 100_000,
    ]


async def send_junk(service: Service) -> None:
    """Send malformed requests, each over a connection of its own, and close or read."""
    for request in junk(service):
        with suppress(OSError, EOFError):
            reader, writer = await service.connect()
            writer.write(request)
            if service.rng.random() < 0.7:
                async with asyncio.timeout(1):
                    await read_response(reader)
            writer.transport.abort()


HOSTILE: tuple[Client, ...] = (
    read_slowly,
    pipeline,
    ask_for_much,
    download_slowly,
    send_junk,
)
KINDS = {client.__name__: client for client in (search, *HOSTILE)}


async def run(port: int, seconds: float, names: list[str]) -> None:
    """Run clients for some seconds; each starts again when the service closes its connection."""

    async def repeat(seed: int, client: Client) -> None:
        service = Service(port, seed)
        while True:
            with suppress(OSError, EOFError):
                await client(service)

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as clients:
            for seed, name in enumerate(names):
                clients.create_task(repeat(seed, KINDS[name]))


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
