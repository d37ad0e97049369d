"""The pointer: a small file that says which snapshot is published, and how replicas check it.

    {"pointer": "<the JSON text of a Pointer>", "signature": "<hex>" or null}

The signature is Ed25519 over the bytes of that text, so that nobody has to encode it alike.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from service.errors import FollowingFailed, needs_extra
from service.schema.snapshots import SnapshotId
from service.snapshot.manifest import FORMAT

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

CLOCK_SKEW = timedelta(minutes=5)
"""How far in the future a publication may be, as clocks differ."""

Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class Patches(Struct, frozen=True):
    """The snapshot that patches start from, and the SHA-256 of the list of their pieces."""

    base: SnapshotId
    index: Sha256


class Copy(Struct, frozen=True, omit_defaults=True):
    """A snapshot, the SHA-256 of the manifest of its copies, and the patches that make it."""

    id: SnapshotId
    manifest: Sha256
    patches: Patches | None = None


class Pointer(Struct, frozen=True, kw_only=True):
    """A publication; each has a higher serial than the one before, also a rollback.

    `kept` are the snapshots that can be fetched, newest first, this one included.
    """

    format: int
    id: SnapshotId
    manifest: Sha256
    serial: Annotated[int, Meta(ge=0)]
    published_at: Annotated[datetime, Meta(tz=True)]
    kept: list[Copy] = []


class PointerFile(Struct, frozen=True):
    """The content of the file."""

    pointer: str
    signature: str | None = None


_pointer = msgspec.json.Decoder(Pointer)
pointer_file_decoder = msgspec.json.Decoder(PointerFile)


class ReadPointer(NamedTuple):
    """A pointer, and the content of its file."""

    pointer: Pointer
    is_signed: bool
    content: bytes


def read_publication(path: Path) -> ReadPointer | None:
    """Read a pointer to a snapshot of this format; None where the file is absent or damaged."""
    with suppress(OSError, FollowingFailed):
        content = path.read_bytes()
        pointer = decode_pointer(content)
        is_signed = bool(pointer_file_decoder.decode(content).signature)
        return ReadPointer(pointer, is_signed, content)
    return None


def encode_pointer(pointer: Pointer, key: Ed25519PrivateKey | None = None) -> bytes:
    """Return the content of the file, signed if there is a key."""
    text = msgspec.json.encode(pointer)
    signature = key.sign(text).hex() if key else None
    return msgspec.json.encode(PointerFile(text.decode(), signature))


def decode_pointer(content: bytes, key: Ed25519PublicKey | None = None) -> Pointer:
    """Return the pointer of a file, signed with the key if there is one.

    Raises FollowingFailed. Nothing of a text that is not signed is read where there is a key.
    """
    try:
        file = pointer_file_decoder.decode(content)
        if key is not None:
            _check_signature(file, key)
        pointer = _pointer.decode(file.pointer)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise FollowingFailed("pointer_refused", f"the pointer cannot be read: {error}") from error
    if pointer.format != FORMAT:
        raise FollowingFailed(
            "pointer_refused", f"the pointer is of format {pointer.format}, not {FORMAT}"
        )
    return pointer


def check_pointer(pointer: Pointer, last_serial: int, max_age: int, now: datetime) -> None:
    """Check that a pointer is no earlier one, and not old if that matters; raises FollowingFailed.

    max_age: seconds, or 0
    """
    if pointer.serial < last_serial:
        raise FollowingFailed(
            "pointer_refused",
            f"the pointer has the serial {pointer.serial}, and {last_serial} was seen before: an "
            "earlier publication stands there again; where the origin was begun anew, remove "
            "following.json and pointer.json",
        )
    age = now - pointer.published_at
    if max_age and age > timedelta(seconds=max_age):
        raise FollowingFailed(
            "pointer_refused",
            f"the pointer is {age.total_seconds():.0f} seconds old, more than {max_age}: nothing "
            "newer was published, or it is withheld, or the clock is wrong",
        )
    if max_age and -age > CLOCK_SKEW:
        raise FollowingFailed(
            "pointer_refused",
            f"the pointer is of {pointer.published_at.isoformat()}, in the future: the clock of "
            "the publisher or of this machine is wrong",
        )


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read what `openssl genpkey -algorithm ed25519` wrote; raises ValueError."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  # optional
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  # optional
            load_pem_private_key,
        )
    except ModuleNotFoundError as error:
        raise ValueError(needs_extra("a key to sign with", "signing")) from error
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is no private key in PEM without a password: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(  # noqa: TRY004  # of the content of a file
            f"{path} is no Ed25519 key; make one with `openssl genpkey -algorithm ed25519`"
        )
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read what `openssl pkey -pubout` wrote; raises ValueError."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  # optional
            Ed25519PublicKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  # optional
            load_pem_public_key,
        )
    except ModuleNotFoundError as error:
        raise ValueError(needs_extra("a key to trust", "signing")) from error
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no public key in PEM: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(  # noqa: TRY004  # of the content of a file
            f"{path} is no Ed25519 key; `openssl pkey -pubout` writes that of a private one"
        )
    return key


def _check_signature(file: PointerFile, key: Ed25519PublicKey) -> None:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # optional

    if file.signature is None:
        raise FollowingFailed("pointer_refused", "the pointer is not signed")
    try:
        key.verify(bytes.fromhex(file.signature), file.pointer.encode())
    except (InvalidSignature, ValueError) as error:
        raise FollowingFailed(
            "pointer_refused", "the pointer is not signed with the trusted key"
        ) from error
