"""The content coding that an `Accept-Encoding` prefers."""

from __future__ import annotations

import tracemalloc

from service.http.compression import negotiate


def test_long_fields_are_negotiated_and_not_kept() -> None:
    assert negotiate(b"gzip;q=1" + b" " * 50_000) == b"gzip"
    tracemalloc.start()
    for number in range(100):
        negotiate(b"x" * 50_000 + b"%d" % number)
    bytes_in_use, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bytes_in_use < 100_000
