"""The options of `ratecard probe`, as one frozen object."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from indexer.options import ARTIFACTS, Seconds


class ProbeOptions(Struct, frozen=True, kw_only=True):
    """Which endpoints are visited, where their answers are written, and the bounds of a visit.

    out (--out FILE): append an observation of each endpoint to this file, as JSON lines
    contact (--contact CONTACT): URL or mail address of the operator, which each request names
    every (--every TIME): skip endpoints that the file observed less than this ago
    post (--post): also visit POST endpoints that declare an example of their body
    allow_private (--allow-private): also visit endpoints at private addresses
    seconds: deadline of one request, look-up of the host included
    silence: seconds without a byte after which a connection counts as lost
    bytes: of one body, decompressed
    interval: seconds between two requests to one registrable domain
    site_seconds: after which the rest of a registrable domain is left for the next run
    """

    out: Path
    contact: Annotated[
        str,
        Meta(pattern=r"^[!#$%&'*+,./0-9:;=?@A-Z_a-z~-]{3,200}\Z", title="a URL or a mail address"),
    ]
    artifacts: Path = ARTIFACTS
    every: Seconds = 24 * 3600
    post: bool = False
    allow_private: bool = False
    seconds: float = 20
    silence: float = 10
    bytes: int = 2**20
    interval: float = 1
    site_seconds: float = 2 * 3600
