"""Signed pointers: what a replica that insists on a key accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.artifacts.pointer import (
    CLOCK_SKEW,
    Pointer,
    check_pointer,
    decode_pointer,
    encode_pointer,
    read_private_key,
    read_public_key,
)
from service.errors import FollowingFailed
from service.snapshot.manifest import FORMAT

NOW = datetime(2026, 5, 7, 10, 16, 51, tzinfo=UTC)
KEY = ed25519.Ed25519PrivateKey.generate()
POINTER = Pointer(format=FORMAT, id="0" * 20, manifest="f" * 64, serial=7, published_at=NOW)


def write_keys(folder: Path, key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> None:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "private.pem").write_bytes(private)
    (folder / "public.pem").write_bytes(public)


def is_refused(act: Callable[[], object], text: str) -> bool:
    """Return whether something is refused with a text in its reason."""
    with pytest.raises(FollowingFailed) as caught:
        act()
    return caught.value.code == "pointer_refused" and text in str(caught.value)


def test_a_pointer_that_is_signed_with_the_key_of_a_file_is_accepted(tmp_path: Path) -> None:
    write_keys(tmp_path, KEY)
    content = encode_pointer(POINTER, read_private_key(tmp_path / "private.pem"))
    assert decode_pointer(content, read_public_key(tmp_path / "public.pem")) == POINTER
    assert decode_pointer(content) == POINTER


def test_a_pointer_without_a_signature_or_with_that_of_another_key_is_refused() -> None:
    trusted = KEY.public_key()
    unsigned = encode_pointer(POINTER)
    assert decode_pointer(unsigned) == POINTER
    assert is_refused(lambda: decode_pointer(unsigned, trusted), "is not signed")
    foreign = encode_pointer(POINTER, ed25519.Ed25519PrivateKey.generate())
    assert is_refused(lambda: decode_pointer(foreign, trusted), "with the trusted key")


@pytest.mark.parametrize("signature", ["", "00", "no hexadecimal digits", "0" * 127, "é" * 128])
def test_a_signature_of_another_form_is_refused(signature: str) -> None:
    content = json.loads(encode_pointer(POINTER, KEY)) | {"signature": signature}
    signed = json.dumps(content).encode()
    assert is_refused(lambda: decode_pointer(signed, KEY.public_key()), "with the trusted key")


@given(st.data())
def test_any_change_of_a_signed_pointer_is_refused_or_changes_nothing(data: st.DataObject) -> None:
    content = bytearray(encode_pointer(POINTER, KEY))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    with suppress(FollowingFailed):
        assert decode_pointer(bytes(content), KEY.public_key()) == POINTER


def test_the_text_that_is_not_signed_is_not_read() -> None:
    signature = json.loads(encode_pointer(POINTER, KEY))["signature"]
    other = json.loads(encode_pointer(replace(POINTER, serial=8)))["pointer"]
    content = json.dumps({"pointer": other, "signature": signature}).encode()
    assert is_refused(lambda: decode_pointer(content, KEY.public_key()), "with the trusted key")


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_deeply_nested_pointer_is_refused(is_inside: bool) -> None:
    nested = '{"deep": ' + "[" * 100_000 + "]" * 100_000 + "}"
    content = json.dumps({"pointer": nested}) if is_inside else nested
    assert is_refused(lambda: decode_pointer(content.encode()), "cannot be read")


def test_a_lower_serial_is_refused_and_the_same_is_not() -> None:
    check_pointer(POINTER, 7, 0, NOW)
    assert is_refused(lambda: check_pointer(POINTER, 8, 0, NOW), "earlier publication")


def test_an_old_pointer_is_refused_where_there_is_a_maximum_age() -> None:
    later = NOW + timedelta(seconds=61)
    check_pointer(POINTER, 0, 0, later)
    check_pointer(POINTER, 0, 61, later)
    assert is_refused(lambda: check_pointer(POINTER, 0, 60, later), "61 seconds old")


def test_a_pointer_from_the_future_says_that_a_clock_is_wrong() -> None:
    check_pointer(POINTER, 0, 60, NOW - CLOCK_SKEW)
    early = NOW - CLOCK_SKEW - timedelta(seconds=1)
    assert is_refused(lambda: check_pointer(POINTER, 0, 60, early), "clock")


def test_keys_of_other_kinds_are_refused(tmp_path: Path) -> None:
    write_keys(tmp_path, rsa.generate_private_key(65537, 2048))
    with pytest.raises(ValueError, match="no Ed25519 key; make one with `openssl genpkey"):
        read_private_key(tmp_path / "private.pem")
    with pytest.raises(ValueError, match="no Ed25519 key; `openssl pkey -pubout`"):
        read_public_key(tmp_path / "public.pem")
    with pytest.raises(ValueError, match="no public key in PEM"):
        read_public_key(tmp_path / "private.pem")
    with pytest.raises(ValueError, match="No such file"):
        read_public_key(tmp_path / "nowhere.pem")
