"""Publishing copies: replicas get what was built, publishers do not overwrite each other."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from indexer.__main__ import main
from indexer.publishing import publication
from indexer.publishing import push as pushing
from indexer.publishing.bucket import ObjectBucket, PointerChanged, StoredPointer, open_bucket
from indexer.publishing.pushed import Pushed
from service.artifacts.pointer import Pointer, decode_pointer, encode_pointer
from service.errors import PublishingFailed
from service.replicas.__main__ import main as follow
from service.snapshot.manifest import FORMAT, verify
from tests.support.artifacts import current, folder
from tests.support.running import SOAK, Build, Json, run_indexer, service, write_lines
from tests.support.stores.object_store import SERVER, ObjectStore
from tests.support.stores.origins import cutting_proxy

BUILDS = 20 if SOAK else 6
DAY = timedelta(days=1)


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty bucket or folder."""
    if request.param == "file":
        return (tmp_path / "bucket").as_uri()
    bucket: str = request.getfixturevalue("bucket")
    return bucket


def catalogue(edition: int, count: int = 30) -> list[Json]:
    """Services of which one in ten has another text in each edition."""
    return [
        service(f"s{n}", description=f"edition {edition if n % 10 == 0 else 0} of {n}")
        for n in range(count)
    ]


def fetch(url: str, replica: Path, *options: str) -> str:
    """Fetch what is published, and return the id of the served snapshot."""
    assert follow(["--follow", url, "--artifacts", str(replica), "--once", *options]) == 0
    verify(folder(replica))
    return current(replica)


def pointer_of(url: str) -> Pointer:
    stored = open_bucket(url).pointer()
    assert stored is not None
    return decode_pointer(stored.content)


def report_of(capsys: pytest.CaptureFixture[str]) -> Json:
    report: Json = json.loads(capsys.readouterr().out)
    (pushed,) = report["pushed"]
    return {name: pushed[name] for name in ("put", "reused", "removed")}


def write_keys(folder: Path) -> tuple[str, str]:
    """Write a private and a public key, and return their paths."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{uuid4()}.pem", folder / f"{uuid4()}.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return str(private), str(public)


def test_a_replica_serves_what_builds_and_rollbacks_publish(
    url: str, build: Build, artifacts: Path, tmp_path: Path
) -> None:
    ids = []
    for edition in range(2):
        assert build(catalogue(edition), options=("--publish", url)) == 0
        ids.append(current(artifacts))
        assert fetch(url, tmp_path / "replica") == ids[-1]
    assert main(["rollback", str(artifacts), "--publish", url]) == 0
    assert fetch(url, tmp_path / "replica") == ids[0]
    assert pointer_of(url).serial > 2
    assert fetch(url, tmp_path / "new replica") == ids[0]


def test_only_what_the_bucket_lacks_is_put(
    url: str, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--publish", url, "--json")
    assert build(catalogue(0), options=options) == 0
    first = report_of(capsys)
    assert first["put"] > 20
    assert first["reused"] == 0
    before = open_bucket(url).pointer()
    assert build(catalogue(0), options=options) == 0
    assert report_of(capsys) == {"put": 0, "reused": first["put"], "removed": 0}
    assert open_bucket(url).pointer() == before
    bucket = open_bucket(url)
    lost, torn = [key for key in bucket.objects() if key.endswith(".zst")][:2]
    bucket.delete([lost])
    bucket.put(torn, b"torn")
    assert build(catalogue(0), options=options) == 0
    assert report_of(capsys) == {"put": 2, "reused": first["put"] - 2, "removed": 0}


def test_a_publication_after_another_publisher_goes_on_with_its_serial(
    url: str, build: Build, tmp_path: Path
) -> None:
    assert build(catalogue(0), options=("--publish", url)) == 0
    assert build(catalogue(1), options=("--publish", url)) == 0
    (tmp_path / "artifacts").rename(tmp_path / "lost")
    assert build(catalogue(2), options=("--publish", url)) == 0
    assert pointer_of(url).serial == 3
    assert len(pointer_of(url).kept) == 3


@pytest.mark.parametrize("other", ["the same catalogue", "another catalogue"])
def test_of_two_publishers_at_once_one_wins_and_the_other_is_told(
    other: str,
    url: str,
    build: Build,
    artifacts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert build(catalogue(0), options=("--publish", url)) == 0
    put_copy, own = pushing.put_copy, tmp_path / "source0.jsonl"
    source = own if other == "the same catalogue" else tmp_path / "other.jsonl"
    write_lines(source, [service("other")])

    def put_beside_another(bucket: ObjectBucket, downloads: Path, now: datetime) -> Pushed:
        options = ("--no-semantic", "--out", tmp_path / "other", "--publish", url)
        process = run_indexer("build", source, *options)
        assert process.returncode == 0, process.stderr
        return put_copy(bucket, downloads, now)

    monkeypatch.setattr(pushing, "put_copy", put_beside_another)
    status = build(catalogue(1), options=("--publish", url))
    assert status == (0 if source == own else 1)
    refusal = "another publisher replaced the pointer meanwhile"
    assert (refusal in capsys.readouterr().err) == (source != own)
    assert fetch(url, tmp_path / "replica") == current(tmp_path / "other")
    monkeypatch.setattr(pushing, "put_copy", put_copy)
    assert build(catalogue(1), options=("--publish", url)) == 0
    assert fetch(url, tmp_path / "replica") == current(artifacts)


def test_a_pointer_is_replaced_by_one_of_many_at_once(url: str) -> None:
    for before in (None, "again"):
        stored = open_bucket(url).pointer()
        assert (stored is None) == (before is None)
        won = replace_at_once(url, stored)
        after = open_bucket(url).pointer()
        assert after is not None
        assert [after.content] == won


def replace_at_once(url: str, stored: StoredPointer | None) -> list[bytes]:
    """Replace the pointer from several threads, and return the contents that were accepted."""
    won: list[bytes] = []
    start = threading.Barrier(6)

    def replace(number: int) -> None:
        bucket, content = open_bucket(url), f"{uuid4()} {number}".encode()
        start.wait()
        try:
            bucket.replace_pointer(content, stored)
        except PointerChanged:
            return
        won.append(content)

    threads = [threading.Thread(target=replace, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def test_every_kept_manifest_stays_complete_and_the_rest_is_removed_after_a_day(
    url: str, build: Build, artifacts: Path, tmp_path: Path
) -> None:
    bucket = open_bucket(url)
    bucket.put("notes.txt", b"of somebody")
    for edition in range(BUILDS):
        assert build(catalogue(edition), options=("--publish", url, "--keep", "2")) == 0
        check_complete(bucket, pointer_of(url))
        assert len(pointer_of(url).kept) == min(edition + 1, 2)
    before = bucket.objects()
    now = datetime.now(UTC)
    for before_a_day in (timedelta(0), DAY - timedelta(minutes=30)):
        assert pushing.collect_garbage(bucket, now + before_a_day) == 0
    removed = pushing.collect_garbage(bucket, now + DAY + timedelta(minutes=1))
    assert removed == len(before) - len(bucket.objects()) > BUILDS
    check_complete(bucket, pointer_of(url))
    manifests = [key for key in bucket.objects() if key.startswith("manifests/")]
    assert len(manifests) == 2
    assert len([key for key in bucket.objects() if key.startswith("patches/")]) == 2
    assert bucket.get("notes.txt") == b"of somebody"
    assert fetch(url, tmp_path / "replica") == current(artifacts)


def check_complete(bucket: ObjectBucket, pointer: Pointer) -> None:
    keys = bucket.objects()
    for copy in pointer.kept:
        manifest = bucket.get(f"manifests/{copy.manifest}.json")
        assert manifest is not None
        index = bucket.get(f"sections/{copy.manifest}.json")
        assert index is not None
        sections = json.loads(index)["sections"]
        assert sections.keys() == json.loads(manifest)["files"].keys()
        hashes = {section["sha256"] for file in sections.values() for section in file}
        assert {f"sections/{digest}.zst" for digest in hashes} <= keys.keys()


def test_objects_of_another_format_stay_while_their_pointer_names_them(
    url: str, build: Build
) -> None:
    assert build(catalogue(0), options=("--publish", url)) == 0
    bucket, digest = open_bucket(url), "a" * 64
    bucket.put(f"objects/{digest}.zst", b"of a newer release")
    manifest = {"format": FORMAT + 1, "files": {"new": {"bytes": 1, "sha256": digest}}}
    bucket.put(f"manifests/{'b' * 64}.json", msgspec.json.encode(manifest))
    pointer = {"format": FORMAT + 1, "kept": [{"id": "c" * 20, "manifest": "b" * 64}]}
    content = {"pointer": json.dumps(pointer), "signature": None}
    bucket.put(f"pointer-{FORMAT + 1}.json", msgspec.json.encode(content))
    later = datetime.now(UTC) + 2 * DAY
    assert pushing.collect_garbage(bucket, later) == 0
    bucket.put(f"pointer-{FORMAT + 1}.json", b"?")
    with pytest.raises(PublishingFailed, match="cannot be read, so that nothing old is removed"):
        pushing.collect_garbage(bucket, later)
    bucket.delete([f"pointer-{FORMAT + 1}.json"])
    assert pushing.collect_garbage(bucket, later) == 2


def test_what_is_used_again_is_put_again_after_half_a_day(
    url: str, build: Build, artifacts: Path
) -> None:
    assert build(catalogue(0), options=("--publish", url)) == 0
    downloads = artifacts / "downloads" / current(artifacts)
    bucket, now = open_bucket(url), datetime.now(UTC)
    assert pushing.put_copy(bucket, downloads, now + DAY / 4).put == 0
    assert pushing.put_copy(bucket, downloads, now + DAY * 3 / 4).reused == 0


def test_a_replica_accepts_what_was_signed_and_nothing_that_others_wrote(
    url: str, build: Build, artifacts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    private, public = write_keys(tmp_path)
    options, replica = ("--publish", url, "--sign", private), tmp_path / "replica"
    assert build(catalogue(0), options=options) == 0
    first = current(artifacts)
    assert fetch(url, replica, "--trust", public) == first
    bucket, signed = open_bucket(url), open_bucket(url).pointer()
    assert signed is not None
    forged = decode_pointer(signed.content)
    assert build(catalogue(1), options=options) == 0
    evil = msgspec.structs.replace(forged, serial=10**9, manifest="e" * 64)
    for content in (encode_pointer(evil), signed.content):
        fresh = bucket.pointer()
        bucket.replace_pointer(content, fresh)
        status = follow(["--follow", url, "--artifacts", str(replica), "--once", "--trust", public])
        assert (status == 0) == (content == signed.content)
        assert current(replica) == first
    assert build(catalogue(1), options=options) == 0
    assert fetch(url, replica, "--trust", public) == current(artifacts)
    assert pointer_of(url).serial < 10**9
    assert "e" * 64 not in [copy.manifest for copy in pointer_of(url).kept]
    bucket.replace_pointer(signed.content, bucket.pointer())
    assert follow(["--follow", url, "--artifacts", str(replica), "--once", "--trust", public]) == 1
    assert "was seen before: an earlier publication stands there again" in caplog.text
    assert current(replica) == current(artifacts)


def test_a_signed_pointer_is_signed_anew_when_nothing_changed(
    url: str, build: Build, tmp_path: Path
) -> None:
    private, _ = write_keys(tmp_path)
    pointers = []
    for _ in range(2):
        assert build(catalogue(0), options=("--publish", url, "--sign", private)) == 0
        pointers.append(pointer_of(url))
    assert pointers[0].id == pointers[1].id
    assert pointers[0].serial < pointers[1].serial
    assert pointers[0].published_at < pointers[1].published_at


def test_every_build_and_rollback_names_what_is_served(build: Build, artifacts: Path) -> None:
    for edition in range(2):
        assert build(catalogue(edition)) == 0
        pointer = decode_pointer((artifacts / "pointer.json").read_bytes())
        assert (pointer.id, pointer.serial) == (current(artifacts), edition + 1)
    assert main(["rollback", str(artifacts)]) == 0
    pointer = decode_pointer((artifacts / "pointer.json").read_bytes())
    assert (pointer.id, pointer.serial) == (current(artifacts), 3)


def test_a_build_without_downloads_leaves_no_pointer_at_what_was_served_before(
    build: Build, artifacts: Path
) -> None:
    assert build(catalogue(0)) == 0
    assert build(catalogue(1), options=("--no-downloads",)) == 0
    pointer = decode_pointer((artifacts / "pointer.json").read_bytes())
    assert (pointer.id, pointer.serial) == (current(artifacts), 2)


def test_a_publisher_whose_clock_is_ahead_removes_nothing_that_is_young(
    url: str, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead:
        @staticmethod
        def now(zone: tzinfo) -> datetime:
            return datetime.now(zone) + 2 * DAY

    assert build(catalogue(0), options=("--publish", url)) == 0
    bucket, uploaded = open_bucket(url), f"objects/{'a' * 64}.zst"
    bucket.put(uploaded, b"of another publisher, whose pointer does not name it yet")
    monkeypatch.setattr(publication, "datetime", Ahead)
    assert build(catalogue(1), options=("--publish", url)) == 0
    assert uploaded in bucket.objects()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--publish", "ftp://host/prefix"], "must be a URL as s3://bucket/prefix"),
        (["--publish", "https://catalogue.example"], "must be a URL as s3://bucket/prefix"),
        (["--publish", "file://relative"], "by file:// and its whole path"),
        (["--publish", "file:///tmp/unused", "--no-downloads"], "leave --no-downloads out"),
        (["--sign", "absent.pem"], "absent.pem is no private key in PEM"),
    ],
)
def test_options_that_cannot_be_used_end_the_build_before_it_begins(
    options: list[str],
    message: str,
    build: Build,
    artifacts: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert build(catalogue(0), options=tuple(options)) == 2
    assert message in capsys.readouterr().err
    assert not artifacts.exists()


def test_a_bucket_that_fails_leaves_the_local_snapshot_published(
    bucket: str,
    object_store: ObjectStore,
    build: Build,
    artifacts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = bucket
    assert build(catalogue(0), options=("--publish", url)) == 0
    replica = tmp_path / "replica"
    first = fetch(url, replica)
    port = urlsplit(object_store.endpoint).port
    assert port
    with cutting_proxy(port, lambda: 500) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy)
        assert build(catalogue(1), options=("--publish", url)) == 1
    error = capsys.readouterr().err
    assert "what was published stays, and the next build pushes what is missing" in error
    assert object_store.secret_key not in error
    assert current(artifacts) != first
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
    assert fetch(url, replica) == first
    assert build(catalogue(1), options=("--publish", url)) == 0
    assert fetch(url, replica) == current(artifacts)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    if SERVER != "moto":  # which takes any key
        assert build(catalogue(2), options=("--publish", url)) == 1
        assert "another" not in capsys.readouterr().err


def test_without_the_extra_the_error_names_it(
    build: Build, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "indexer.publishing.bucket", None)
    assert build(catalogue(0), options=("--publish", "file:///tmp/unused")) == 2
    assert "pip install -e '.[replica]'" in capsys.readouterr().err
