"""Stores: one contract for folders and buckets, and what failures of a server look like."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    NotModifiedError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.store import LocalStore

from service.errors import FollowingFailed
from service.replicas.origin import POINTER, open_origin
from service.replicas.store import RETRIES, open_store
from tests.support.stores.faults import NONE, Fault, FaultProxy, random_plan, run_fault_proxy
from tests.support.stores.object_store import SERVER
from tests.support.stores.object_store import ObjectStore as Server

if TYPE_CHECKING:
    from obstore.store import ObjectStore

TWO_STEPS = "moto's server checks a condition and writes in two steps: run `make servers`"
LARGE = 24 << 20
"""Bytes of a large object: more than the first part of an upload in parts."""
MOST_REQUESTS = RETRIES["max_retries"] + 1
ODD_KEYS = [
    "with space",
    "plus+and&amp;",
    "per%20cent",
    "ünïcode-文字",
    "colon:semi;comma,",
    "a=b?c#d",
    "~tilde'quote\"",
    "deep/er/still",
    "x" * 200,
]


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """A store without objects."""
    if request.param == "s3":
        return open_store(request.getfixturevalue("bucket"))
    folder = tmp_path / "bucket"
    folder.mkdir()
    return open_store(f"file://{folder}")


@pytest.fixture
def s3(bucket: str) -> ObjectStore:
    """A bucket without objects."""
    return open_store(bucket)


@pytest.fixture
def proxy(object_store: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy in front of the S3 server, which the environment names."""
    with run_fault_proxy(object_store.endpoint) as proxy:
        for name, value in object_store.environment_of(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield proxy


def content_of(store: ObjectStore, key: str) -> bytes:
    return bytes(store.get(key).bytes())


def noise(size: int, seed: int = 1) -> bytes:
    """Return bytes that no compression makes smaller."""
    return np.random.default_rng(seed).bytes(size)


def keys(store: ObjectStore, prefix: str | None = None) -> set[str]:
    return {meta["path"] for meta in store.list(prefix).collect()}


def test_an_object_reads_as_it_was_put(store: ObjectStore) -> None:
    store.put("objects/one", b"first")
    result = store.get("objects/one")
    assert bytes(result.bytes()) == b"first"
    meta = store.head("objects/one")
    assert meta["size"] == 5
    assert meta["e_tag"] == result.meta["e_tag"]
    assert abs(datetime.now(UTC) - meta["last_modified"]) < timedelta(minutes=5)


def test_an_empty_object_is_one(store: ObjectStore) -> None:
    store.put("empty", b"")
    assert content_of(store, "empty") == b""
    assert keys(store) == {"empty"}


def test_a_put_replaces_the_object_and_its_etag(store: ObjectStore) -> None:
    store.put("one", b"first")
    etag = store.head("one")["e_tag"]
    store.put("one", b"second")
    assert content_of(store, "one") == b"second"
    assert store.head("one")["e_tag"] != etag


def test_an_object_that_did_not_change_is_not_sent_again(store: ObjectStore) -> None:
    store.put("one", b"first")
    etag = store.head("one")["e_tag"]
    assert etag
    with pytest.raises(NotModifiedError):
        store.get("one", options={"if_none_match": etag})
    store.put("one", b"second")
    assert bytes(store.get("one", options={"if_none_match": etag}).bytes()) == b"second"


def test_ranges_of_an_object(store: ObjectStore) -> None:
    content = noise(10_000)
    store.put("one", content)
    for start, length in [(0, 1), (0, 10_000), (17, 100), (9_999, 1)]:
        part = bytes(store.get_range("one", start=start, length=length))
        assert part == content[start : start + length]
    result = store.get("one", options={"range": {"offset": 9_000}})
    assert result.meta["size"] == 10_000
    assert bytes(result.bytes()) == content[9_000:]
    many = store.get_ranges("one", starts=[5, 5_000], lengths=[10, 20])
    assert [bytes(each) for each in many] == [content[5:15], content[5_000:5_020]]


def test_a_range_past_the_end_is_an_error(store: ObjectStore) -> None:
    store.put("one", b"first")
    with pytest.raises(BaseError):
        store.get("one", options={"range": {"offset": 6}}).bytes()


@pytest.mark.parametrize("key", ["missing", "objects/missing"])
def test_a_missing_object_is_not_found(store: ObjectStore, key: str) -> None:
    for read in (store.get, store.head, lambda key: store.get_range(key, start=0, length=1)):
        with pytest.raises(FileNotFoundError):
            read(key)


def test_a_bucket_that_does_not_exist_is_an_error(s3: ObjectStore, object_store: Server) -> None:
    s3.put("one", b"first")
    store = open_store("s3://no-such-bucket/prefix")
    with pytest.raises((BaseError, FileNotFoundError)) as caught:
        store.put("one", b"first")
    assert object_store.secret_key not in str(caught.value)


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_with_odd_characters(store: ObjectStore, key: str) -> None:
    store.put(key, b"odd")
    store.put("plain", b"")
    assert content_of(store, key) == b"odd"
    assert keys(store) == {key, "plain"}
    store.delete(key)
    assert keys(store) == {"plain"}


def test_a_list_has_the_objects_below_a_prefix(store: ObjectStore) -> None:
    for key in ("objects/a", "objects/b/c", "objects-not", "manifests/d"):
        store.put(key, b"")
    assert keys(store) == {"objects/a", "objects/b/c", "objects-not", "manifests/d"}
    assert keys(store, "objects") == {"objects/a", "objects/b/c"}
    assert keys(store, "nothing") == set()


def test_a_list_goes_over_many_pages(s3: ObjectStore) -> None:
    names = {f"objects/{number:04}" for number in range(1_050)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: s3.put(name, b""), names))
    assert keys(s3) == names


def test_a_deleted_object_is_missing(store: ObjectStore) -> None:
    for key in ("one", "two", "three"):
        store.put(key, b"")
    store.delete("one")
    store.delete(["two"])
    assert keys(store) == {"three"}
    with pytest.raises(FileNotFoundError):
        store.get("one")


def test_a_bucket_does_not_mind_that_a_deleted_object_is_missing(s3: ObjectStore) -> None:
    s3.delete("never")


def test_a_large_object_travels_whole(store: ObjectStore) -> None:
    content = noise(LARGE)
    store.put("large", content)
    digest = hashlib.sha256()
    for chunk in store.get("large").stream(1 << 20):
        digest.update(chunk)
    assert digest.digest() == hashlib.sha256(content).digest()
    assert bytes(store.get_range("large", start=LARGE - 3, length=3)) == content[-3:]


def test_a_large_object_is_put_from_a_file(store: ObjectStore, tmp_path: Path) -> None:
    content = noise(LARGE)
    (tmp_path / "file").write_bytes(content)
    store.put("large", tmp_path / "file")
    assert content_of(store, "large") == content


def test_an_object_is_created_once(store: ObjectStore) -> None:
    store.put("one", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        store.put("one", b"second", mode="create")
    assert content_of(store, "one") == b"first"


def test_an_object_is_replaced_only_if_it_is_still_the_same(s3: ObjectStore) -> None:
    first = s3.put("one", b"first")
    second = s3.put("one", b"second", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        s3.put("one", b"third", mode={"e_tag": first["e_tag"]})
    assert content_of(s3, "one") == b"second"
    s3.put("one", b"third", mode={"e_tag": second["e_tag"]})
    assert content_of(s3, "one") == b"third"


def test_an_object_that_was_deleted_is_not_replaced(s3: ObjectStore) -> None:
    first = s3.put("one", b"first")
    s3.delete("one")
    with pytest.raises((PreconditionError, FileNotFoundError)):
        s3.put("one", b"second", mode={"e_tag": first["e_tag"]})
    assert keys(s3) == set()


def test_of_several_writers_that_create_an_object_one_wins(store: ObjectStore) -> None:
    if SERVER == "moto" and not isinstance(store, LocalStore):
        pytest.skip(TWO_STEPS)

    def create(writer: int) -> int | None:
        try:
            store.put("one", b"%d" % writer, mode="create")
        except AlreadyExistsError:
            return None
        return writer

    for _ in range(10):
        with ThreadPoolExecutor(8) as threads:
            winners = [each for each in threads.map(create, range(8)) if each is not None]
        assert len(winners) == 1
        assert content_of(store, "one") == b"%d" % winners[0]
        store.delete("one")


@pytest.mark.skipif(SERVER == "moto", reason=TWO_STEPS)
def test_of_several_writers_that_replace_an_object_one_wins(s3: ObjectStore) -> None:
    etag = s3.put("one", b"first")["e_tag"]

    def replace(writer: int, etag: str | None) -> tuple[int, str | None] | None:
        try:
            return writer, s3.put("one", b"%d" % writer, mode={"e_tag": etag})["e_tag"]
        except BaseError:
            return None

    for number in range(10):
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(replace, range(8 * number, 8 * number + 8), [etag] * 8))
        [(winner, etag)] = [each for each in results if each is not None]
        assert content_of(s3, "one") == b"%d" % winner


def test_a_request_that_fails_twice_is_answered(proxy: FaultProxy, object_store: Server) -> None:
    store = open_store(object_store.url("twice"))
    for fault in (Fault(status=500), Fault(status=503), Fault(lost=True)):
        faults = [fault, fault]
        proxy.plan = lambda *_, faults=faults: faults.pop() if faults else NONE
        store.put("one", str(fault).encode())
        assert not faults
        faults = [fault, fault]
        assert content_of(store, "one") == str(fault).encode()


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(status=503), Fault(lost=True)])
def test_retries_are_bounded(proxy: FaultProxy, object_store: Server, fault: Fault) -> None:
    store = open_store(object_store.url("bounded"))
    proxy.plan = lambda *_: fault
    for act in (
        lambda: store.put("one", b"first"),
        lambda: store.get("one"),
        lambda: store.head("one"),
        lambda: store.list().collect(),
    ):
        proxy.requests.clear()
        with pytest.raises(GenericError):
            act()
        assert len(proxy.requests) == MOST_REQUESTS


def test_a_request_that_is_refused_is_not_repeated(proxy: FaultProxy, object_store: Server) -> None:
    proxy.plan = lambda *_: Fault(status=403)
    store = open_store(object_store.url("refused"))
    with pytest.raises(PermissionDeniedError):
        store.get("one")
    assert len(proxy.requests) == 1


def test_a_read_that_is_cut_never_passes_as_whole(proxy: FaultProxy, object_store: Server) -> None:
    store = open_store(object_store.url("cut"))
    content = noise(100_000)
    store.put("one", content)
    for cut in (0, 1, 50_000, 99_999):
        proxy.plan = lambda *_, cut=cut: Fault(cut=cut)
        try:
            assert content_of(store, "one") == content
        except BaseError:
            continue


def test_a_creation_whose_answer_is_lost_says_that_the_object_exists(
    proxy: FaultProxy, object_store: Server
) -> None:
    # A publisher that is told so has to read the object: it may be its own.
    faults = [Fault(lost=True)]
    store = open_store(object_store.url("lost"))
    proxy.plan = lambda *_: faults.pop() if faults else NONE
    with pytest.raises(AlreadyExistsError):
        store.put("one", b"first", mode="create")
    assert content_of(store, "one") == b"first"


@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_over_failures_a_store_has_what_was_put_or_says_otherwise(
    proxy: FaultProxy, object_store: Server, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    store = open_store(object_store.url(f"random-{seed}-{os.urandom(4).hex()}"))
    proxy.plan = random_plan(seed, 0.3)
    put: dict[str, bytes] = {}
    for number in range(5):
        key, content = f"objects/{number}", chance.bytes(int(chance.integers(20_000)))
        try:
            store.put(key, content)
        except BaseError:
            continue
        put[key] = content
    for key, content in put.items():
        try:
            assert content_of(store, key) == content
        except BaseError:
            continue
    proxy.plan = lambda *_: NONE
    assert all(content_of(store, key) == content for key, content in put.items())


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(status=403), Fault(lost=True)])
def test_a_follower_names_the_origin_and_no_credentials(
    proxy: FaultProxy, object_store: Server, fault: Fault
) -> None:
    url = object_store.url("named")
    open_store(url).put(POINTER, b"{}")
    proxy.plan = lambda *_: fault
    with pytest.raises(FollowingFailed) as caught:
        open_origin(url).pointer()
    message = str(caught.value)
    assert caught.value.code == "origin_unavailable"
    assert message.startswith(f"{url}: ")
    assert "\n" not in message
    for secret in (object_store.secret_key, object_store.access_key):
        assert secret not in message


def test_a_wrong_key_is_refused_without_naming_it(
    object_store: Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if object_store.server == "moto":
        pytest.skip("moto's server accepts any key: run `make servers`")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(FollowingFailed) as caught:
        open_origin(bucket).pointer()
    assert caught.value.code == "origin_unavailable"
    for secret in ("another-secret", object_store.secret_key, object_store.access_key):
        assert secret not in str(caught.value)
