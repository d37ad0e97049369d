"""Connections to the hosts of feeds: permitted addresses, DNS and TLS."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indexer.__main__ import main
from indexer.errors import SourceError
from indexer.options import Limits
from tests.support.names import Resolve, replace_dns
from tests.support.running import PLAIN, run_fork
from tests.support.sources.feeds import (
    CERTIFICATE,
    QUICK,
    RESOURCES,
    WHOLE,
    Server,
    fetch_feed,
    items_of,
    misbehaving,
    redirecting,
    self_signed,
)

ALLOWED = msgspec.structs.replace(QUICK, allow_private=True)


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Return a function that makes a host name resolve to some addresses, or fail without any."""
    return replace_dns(monkeypatch)


def url_with_host(server: Server, host: str) -> str:
    return server.url.replace("127.0.0.1", host)


@pytest.fixture
def server() -> Iterator[Server]:
    with misbehaving(WHOLE) as server:
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_a_private_address_or_localhost_in_the_url_is_allowed(
    host: str, server: Server, cache: Path
) -> None:
    assert items_of(fetch_feed(url_with_host(server, host), cache)) == RESOURCES


def test_a_feed_at_an_ipv6_address_is_read(server: Server, cache: Path) -> None:
    url = url_with_host(server, "[::ffff:127.0.0.1]")
    assert items_of(fetch_feed(url, cache)) == RESOURCES


@pytest.mark.parametrize("host", ["feeds.internal", "catalogue", "2130706433", "localhost."])
def test_a_name_at_a_private_address_needs_the_option(
    host: str, server: Server, cache: Path, resolve: Resolve
) -> None:
    resolve(host, "127.0.0.1")
    url = url_with_host(server, host)
    with pytest.raises(SourceError, match=r"is not a public address; .* --allow-private-feeds"):
        fetch_feed(url, cache)
    assert server.requests == []
    assert items_of(fetch_feed(url, cache, ALLOWED)) == RESOURCES
    assert {request.headers["Host"] for request in server.requests} == {
        f"{host}:{server.server_port}"
    }


def test_the_command_line_has_the_option(
    server: Server, tmp_path: Path, resolve: Resolve, capsys: pytest.CaptureFixture[str]
) -> None:
    resolve("feeds.internal", "127.0.0.1")
    command = ["build", url_with_host(server, "feeds.internal"), "--out", str(tmp_path), *PLAIN]
    assert main(command) == 1
    assert "add --allow-private-feeds" in capsys.readouterr().err
    assert main([*command, "--allow-private-feeds"]) == 0


def test_localhost_that_resolves_elsewhere_needs_the_option_too(
    server: Server, cache: Path, resolve: Resolve
) -> None:
    resolve("localhost", "10.0.0.1")
    with pytest.raises(SourceError, match=r"localhost at 10\.0\.0\.1, which is not a public"):
        fetch_feed(url_with_host(server, "localhost"), cache)


METADATA = """
    169.254.169.254 fe80::1 fd00:ec2::254 fd20:ce::254 100.100.100.200 168.63.129.16
    ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::
"""


@pytest.mark.parametrize("address", METADATA.split())
@pytest.mark.parametrize("limits", [QUICK, ALLOWED], ids=["default", "private allowed"])
def test_a_name_at_an_address_of_instance_metadata_is_never_read(
    limits: Limits, address: str, server: Server, cache: Path, resolve: Resolve
) -> None:
    resolve("feeds.example", address)
    with pytest.raises(SourceError, match=r"not a public address; clouds serve credentials"):
        fetch_feed(url_with_host(server, "feeds.example"), cache, limits)


def test_one_private_address_among_several_is_enough_to_refuse_a_name(
    server: Server, cache: Path, resolve: Resolve
) -> None:
    resolve("feeds.example", "8.8.8.8", "127.0.0.1")
    message = r"feeds\.example at 127\.0\.0\.1, which is not a public address"
    with pytest.raises(SourceError, match=message):
        fetch_feed(url_with_host(server, "feeds.example"), cache)


def test_the_next_address_is_tried_when_one_does_not_accept_connections(
    server: Server, cache: Path, resolve: Resolve
) -> None:
    resolve("feeds.example", "127.0.0.2", "127.0.0.1")  # the server listens on the second only
    assert items_of(fetch_feed(url_with_host(server, "feeds.example"), cache, ALLOWED)) == RESOURCES


def test_private_feeds_allow_no_redirect_to_private_addresses(
    cache: Path, resolve: Resolve
) -> None:
    resolve("other.internal", "127.0.0.1")
    with (
        misbehaving(redirecting("http://other.internal:1/")) as server,
        pytest.raises(SourceError, match=r"redirects to other\.internal at 127\.0\.0\.1, which"),
    ):
        fetch_feed(server.url, cache, ALLOWED)


def test_a_name_that_does_not_resolve_is_retried(
    server: Server, cache: Path, resolve: Resolve
) -> None:
    resolve("feeds.example")
    message = r"feeds\.example cannot be resolved: .* after 3 attempts"
    with pytest.raises(SourceError, match=message):
        fetch_feed(url_with_host(server, "feeds.example"), cache)


def test_a_label_of_more_than_63_letters_is_not_retried(cache: Path) -> None:
    with pytest.raises(SourceError, match=r"the host cannot be looked up"):
        fetch_feed(f"http://{'a' * 70}.example/", cache)


def test_the_deadline_includes_the_look_up_of_the_host(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    finished = threading.Event()

    def getaddrinfo(*_: object, **__: object) -> Any:
        answered.wait(60)
        finished.set()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        limits = Limits(seconds=0.2)
        with pytest.raises(SourceError, match=r"not read completely within the 0\.2 seconds"):
            fetch_feed("http://feeds.example/", cache, limits)
        assert not finished.is_set()
        answered.set()  # a late result changes nothing
        assert finished.wait(60)


@pytest.fixture
def secure_server() -> Iterator[Server]:
    """A server with a self-signed certificate for localhost."""
    with misbehaving(WHOLE, self_signed()) as server:
        yield server


def test_the_certificate_is_verified_against_the_host_name(
    secure_server: Server, tmp_path: Path
) -> None:
    trusting = os.environ | {"SSL_CERT_FILE": str(CERTIFICATE)}
    url = secure_server.url.replace("http://127.0.0.1", "https://localhost")
    command = ("build", "--allow-private", *PLAIN, "--out", tmp_path)
    assert run_fork(main, *command, url, environ=trusting).returncode == 0
    by_address = url.replace("localhost", "127.0.0.1")
    refused = run_fork(main, *command, by_address, environ=trusting)
    assert "the certificate cannot be verified" in refused.stderr
    assert "IP address mismatch" in refused.stderr


def test_an_untrusted_certificate_is_not_retried(secure_server: Server, cache: Path) -> None:
    url = secure_server.url.replace("http", "https")
    with pytest.raises(SourceError, match=r"the certificate cannot be verified: .*self-signed"):
        fetch_feed(url, cache, QUICK)
