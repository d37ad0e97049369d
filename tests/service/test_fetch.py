"""Copies over HTTP: equal to the byte, continued after cuts, and refused where wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
import stamina
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.cli.main import main as index
from indexer.snapshot.rollback import roll_back
from service import fetch as fetching
from service.artifacts.publishing import stage
from service.fetch import FetchFailed, fetch, main
from service.snapshot.manifest import FORMAT, MANIFEST, File, identify, read_manifest, verify
from service.snapshot.publication import read_current
from tests.support.artifacts import current, flip_a_bit, folder, snapshots
from tests.support.folder_server import FolderServer, serve_folder
from tests.support.running import Json, eventually, examples, serve, service, write_lines

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NGINX = Path("/usr/sbin/nginx")
ROOT_ONLY = "mounting a small file system needs root"


def publish(artifacts: Path, edition: int, *options: str) -> str:
    """Build an edition of a small catalogue; returns the id of the snapshot."""
    artifacts.mkdir(exist_ok=True)
    records = [
        service(f"s{number}", description=f"edition {edition}, {number**9}", big=2**70)
        for number in range(50)
    ]
    source = write_lines(artifacts / "services.jsonl", records)
    arguments = ["build", source, "--out", str(artifacts), "--no-semantic", "--quiet"]
    assert index([*arguments, *options]) == 0
    return current(artifacts)


@pytest.fixture(scope="module")
def editions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts of an origin that published two editions."""
    artifacts = tmp_path_factory.mktemp("editions") / "origin"
    publish(artifacts, 1)
    publish(artifacts, 2)
    return artifacts


@pytest.fixture(scope="module")
def larger(editions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts of that origin when it has published an archive of some chunks."""
    artifacts = Path(shutil.copytree(editions, tmp_path_factory.mktemp("larger") / "origin"))
    noise = (hashlib.sha256(str(number).encode()).hexdigest() for number in count())
    records = [
        service(f"s{number}", noise=[next(noise) for _ in range(100)]) for number in range(200)
    ]
    source = write_lines(artifacts / "services.jsonl", records)
    arguments = ["build", source, "--out", str(artifacts), "--no-semantic", "--quiet"]
    assert index([*arguments, "--accept", source]) == 0
    return artifacts


@pytest.fixture(autouse=True)
def retries() -> Iterator[None]:
    """Retry without waiting."""
    stamina.set_testing(True, attempts=3)
    yield
    stamina.set_testing(False)


@pytest.fixture
def home(editions: Path, tmp_path: Path) -> Path:
    """The artifacts of an origin, for a test to change."""
    return Path(shutil.copytree(editions, tmp_path / "origin"))


@pytest.fixture
def origin(home: Path) -> Iterator[FolderServer]:
    """A static host of the downloads of an origin."""
    with serve_folder(home / "downloads") as server:
        yield server


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of each file below a folder."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def check_equal(copy: Path, home: Path) -> None:
    """Check that a copy has the bytes of the current snapshot and of its downloads."""
    snapshot = current(home)
    assert current(copy) == snapshot
    verify(folder(copy))
    here, there = files_of(folder(copy)), files_of(home / "snapshots" / snapshot)
    manifests = [json.loads(files.pop(MANIFEST)) for files in (here, there)]
    assert here == there
    assert manifests[0] == manifests[1] | {"inputs": None}
    downloads = files_of(copy / "downloads")
    for name, content in downloads.items():
        if name.startswith(snapshot) or name == "current.json":
            assert content == (home / "downloads" / name).read_bytes(), name
    assert len(downloads) >= 5
    left = {path.name for path in copy.iterdir()}
    assert left == {".lock", "CURRENT", "downloads", "snapshots"}


def check_copy(url: str, copy: Path, home: Path) -> None:
    """Fetch, and check that the copy is equal."""
    assert fetch(url, copy) == current(home)
    check_equal(copy, home)


def refusal(url: str, artifacts: Path, captured: pytest.CaptureFixture[str]) -> str:
    """Fetch what must be refused; returns the reason, which is one line."""
    captured.readouterr()
    assert main([url, "--artifacts", str(artifacts)]) == 1
    output = captured.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith("; what was served before stays")
    return line


def fetched(url: str, artifacts: Path, captured: pytest.CaptureFixture[str]) -> str:
    """Fetch what must succeed; returns what is printed."""
    captured.readouterr()
    assert main([url, "--artifacts", str(artifacts)]) == 0
    output = captured.readouterr()
    assert output.err == ""
    return output.out.strip()


# A copy


def test_a_copy_of_a_folder_is_equal_and_a_second_look_transfers_nothing(
    origin: FolderServer,
    home: Path,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fetched(origin.url, copy, capsys) == f"published {current(home)}"
    check_equal(copy, home)
    assert read_current(copy).checked_at == checked_at(home)
    origin.served.clear()
    assert fetched(origin.url, copy, capsys) == "nothing new"
    assert [each.path for each in origin.served] == ["current.json"]
    check_equal(copy, home)


def checked_at(home: Path) -> datetime:
    """Return when a snapshot was checked, as its description says: to the millisecond."""
    described = json.loads((home / "downloads" / "current.json").read_bytes())
    return datetime.fromisoformat(described["snapshot"]["checked_at"])


def test_a_copy_of_a_service_is_equal_and_so_is_a_copy_of_the_copy(
    home: Path, copy: Path, tmp_path: Path
) -> None:
    with serve(home) as client:
        assert fetch(str(client.base_url), copy) == current(home)
        offered = client.get("/v1/snapshots/current").content
    check_equal(copy, home)
    with serve(copy) as client:
        assert client.get("/v1/snapshots/current").content == offered
        check_copy(str(client.base_url) + "/", tmp_path / "second", home)


@pytest.mark.skipif(not NGINX.exists(), reason="nginx is not installed")
def test_a_folder_that_nginx_serves_can_be_copied(home: Path, copy: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    user = "user root;" if os.geteuid() == 0 else ""  # who may read the folders of tests
    root = home / "downloads"
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"daemon off; {user} pid {tmp_path}/nginx.pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    )
    command = [str(NGINX), "-p", str(tmp_path), "-c", str(configuration)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: is_open(port))
            check_copy(f"http://127.0.0.1:{port}/current.json", copy, home)
        finally:
            process.terminate()


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_the_address_may_have_a_password_and_a_query_which_nothing_prints(
    origin: FolderServer, copy: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = origin.url.replace("//", "//user:secret@") + "?token=hidden"
    said = fetched(url, copy, capsys)
    assert all(target.endswith("?token=hidden") for target in origin.targets)
    assert None not in origin.authorizations
    publish(home, 3)
    for fault in (404, 500, 301):
        origin.status = lambda path, fault=fault: fault if "zst" in path else None  # type: ignore[misc]
        said += refusal(url, copy, capsys)
    origin.status = lambda _: None
    origin.spoil = lambda path, body: body[::-1] if "zst" in path else body
    said += refusal(url, copy, capsys)
    origin.spoil = lambda _, body: body[::-1]
    said += refusal(url, copy, capsys)
    said += refusal("http://user:secret@127.0.0.1:1/?token=hidden", copy, capsys)
    assert not re.search("user|secret|token|hidden", said)


@pytest.mark.parametrize(
    "url",
    [
        "catalogue.secret",
        "ftp://secret/current.json",
        "file:///secret",
        "http://user:se/cret@secret/",
        "http://user:se?cret@secret/",
        "http://[secret",
        "http:///secret",
        "http://secret\n/",
        "",
    ],
)
def test_a_url_that_is_none_is_refused_and_not_repeated(
    url: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([url, "--artifacts", str(copy)])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert "http://" in said
    assert "cret" not in said
    assert not copy.exists()


@pytest.mark.parametrize("every", ["0", "-1", "nan", "inf", "1e300"])
def test_a_time_that_is_none_is_refused(
    every: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["http://127.0.0.1:1", "--artifacts", str(copy), "--every", every])
    assert "--every takes seconds" in capsys.readouterr().err


def test_redirects_are_followed_but_not_out_of_http(
    origin: FolderServer,
    home: Path,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    origin.status, origin.location = lambda path: 302 if "old/" in path else None, "/*"
    check_copy(origin.url.replace("current", "old/current"), copy, home)
    origin.status = lambda _: 302
    for location in ("file:///etc/passwd", "ftp://127.0.0.1/x", origin.url):
        origin.location = location
        origin.served.clear()
        refusal(origin.url, copy, capsys)
        assert len(origin.served) in (1, 21)  # not retried; at most twenty redirects


# Downloads that are cut


@settings(max_examples=examples(80))
@given(st.integers(0, 10**9 - 1), st.sampled_from([".tar.zst", ".jsonl.zst"]), st.booleans())
@example(1, ".tar.zst", True)
@example(10**9 - 1, ".tar.zst", True)
def test_a_download_that_is_cut_at_any_byte_goes_on_there(
    editions: Path, place: int, suffix: str, has_ranges: bool
) -> None:
    name = f"{current(editions)}{suffix}"
    size = (editions / "downloads" / name).stat().st_size
    end = place * size // 10**9
    with TemporaryDirectory() as tmp, serve_folder(editions / "downloads") as origin:
        cuts = iter([end])
        origin.has_ranges = has_ranges
        origin.cut = lambda path: next(cuts, None) if path == name else None
        check_copy(origin.url, Path(tmp), editions)
        starts = [each.start for each in origin.served if each.path == name]
        assert starts == [0, end if has_ranges else 0]
        assert origin.bytes_of(name) == size + (0 if has_ranges else end)


def test_a_connection_that_is_always_cut_ends_with_a_copy_after_some_looks(
    origin: FolderServer, home: Path, copy: Path
) -> None:
    size = (home / "downloads" / f"{current(home)}.tar.zst").stat().st_size
    origin.cut = lambda path: size // 20 if path.endswith(".tar.zst") else None
    looks = 0
    while not copy.exists() or current_or_none(copy) is None:
        looks += 1
        assert looks < 15
        with suppress(FetchFailed):
            fetch(origin.url, copy)
    check_equal(copy, home)
    assert looks > 1
    assert origin.bytes_of(f"{current(home)}.tar.zst") == size


def current_or_none(artifacts: Path) -> str | None:
    return current(artifacts) if (artifacts / "CURRENT").exists() else None


def test_a_response_that_does_not_end_is_given_up_and_continued(
    origin: FolderServer, home: Path, larger: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock goes on by a second with each chunk."""
    shutil.copytree(larger, home, dirs_exist_ok=True)
    ticks = SimpleNamespace(monotonic=count().__next__, sleep=None)
    monkeypatch.setattr(fetching, "time", ticks)
    monkeypatch.setattr(fetching, "LONGEST", 3)
    looks = 0
    while current_or_none(copy) is None:
        looks += 1
        assert looks < 30
        with suppress(FetchFailed):
            fetch(origin.url, copy)
    check_equal(copy, home)
    assert len([each for each in origin.served if each.path.endswith(".tar.zst")]) > 1


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_a_fault_of_the_server_is_retried(
    status: int, origin: FolderServer, home: Path, copy: Path
) -> None:
    seen = Counter[str]()

    def fail_first(path: str) -> int | None:
        seen[path] += 1
        return status if seen[path] == 1 else None

    origin.status = fail_first
    check_copy(origin.url, copy, home)
    assert set(seen.values()) == {2}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
@pytest.mark.parametrize("suffix", ["current.json", ".tar.zst"])
def test_an_answer_that_no_retry_changes_is_reported_at_once(
    status: int,
    suffix: str,
    origin: FolderServer,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    origin.status = lambda path: status if path.endswith(suffix) else None
    assert f"answers {status}; " in refusal(origin.url, copy, capsys)
    assert len([each for each in origin.served if each.path.endswith(suffix)]) == 1


def test_an_origin_that_is_away_is_retried_and_reported(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "refused" in refusal(f"http://127.0.0.1:{port}", copy, capsys)
    assert not copy.exists()


def test_what_was_left_of_another_snapshot_is_removed(
    origin: FolderServer, home: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin.cut = lambda path: 1000 if path.endswith(".tar.zst") else None
    for edition in (3, 4, 5):
        publish(home, edition)
        refusal(origin.url, copy, capsys)
        assert len([*(copy / "incoming").iterdir()]) == 1
    origin.cut = lambda _: None
    check_copy(origin.url, copy, home)


@pytest.mark.parametrize("name", ["incoming", "staging"])
def test_a_folder_of_something_else_is_left_as_it_is(
    name: str, origin: FolderServer, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / name).mkdir(parents=True)
    (copy / name / "own").write_text("of an operator")
    assert f"has `{name}`, which a build would remove" in refusal(origin.url, copy, capsys)
    assert [*copy.rglob("*")] == [copy / name, copy / name / "own"]


@pytest.mark.parametrize("suffix", [".tar.zst", ".index.jsonl.zst", ".jsonl.zst"])
@pytest.mark.parametrize("fault", ["flipped", "shorter", "longer"])
def test_a_file_that_is_not_the_described_one_is_refused_and_fetched_again(
    suffix: str,
    fault: str,
    origin: FolderServer,
    home: Path,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def spoil(path: str, body: bytes) -> bytes:
        if path != f"{current(home)}{suffix}":
            return body
        middle = len(body) // 2
        flipped = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
        return {"flipped": flipped, "shorter": body[:-1], "longer": body + b"x"}[fault]

    origin.spoil = spoil
    refusal(origin.url, copy, capsys)
    assert not (copy / "CURRENT").exists()
    origin.spoil = lambda _, body: body
    check_copy(origin.url, copy, home)


# Archives and descriptions that are refused


Member = tuple[str | tarfile.TarInfo, bytes]


class Offer:
    """A snapshot that an origin offers, for a test to spoil: its members, and its description."""

    def __init__(self, home: Path) -> None:
        path = folder(home)
        self.downloads = home / "downloads"
        self.manifest: Json = json.loads((path / MANIFEST).read_bytes()) | {"inputs": None}
        self.files = {name: (path / name).read_bytes() for name in sorted(self.manifest["files"])}
        self.snapshot: Json = json.loads((self.downloads / "current.json").read_bytes())["snapshot"]
        self.content: bytes | None = None

    @property
    def id(self) -> str:
        return str(self.manifest["id"])

    def identify(self) -> None:
        """Give the snapshot the id that its files have."""
        files = {name: File(**file) for name, file in self.manifest["files"].items()}
        self.manifest["id"] = identify(files)

    def name(self, path: str, content: bytes, **changes: Any) -> None:
        """Name a file in the manifest, and pack it."""
        digest = hashlib.sha256(content).hexdigest()
        self.files[path] = content
        self.manifest["files"][path] = {"bytes": len(content), "sha256": digest} | changes
        self.identify()

    def members(self) -> list[Member]:
        manifest = (f"{self.id}/{MANIFEST}", json.dumps(self.manifest).encode())
        return [manifest, *((f"{self.id}/{name}", text) for name, text in self.files.items())]

    def publish(self, members: list[Member] | None = None, **changes: object) -> None:
        """Put the archive on the host, with a description that is right about its bytes."""
        content = self.content or zstd.compress(tar(members or self.members()))
        names = [f"{self.id}.{kind}" for kind in ("tar.zst", "jsonl.zst", "index.jsonl.zst")]
        files = []
        for name, body in zip(names, (content, b"lines", b"index"), strict=True):
            (self.downloads / name).write_bytes(body)
            digest = hashlib.sha256(body).hexdigest()
            files.append({"path": name, "bytes": len(body), "sha256": digest})
        described = self.snapshot | {"id": self.id, "files": files} | changes
        (self.downloads / "current.json").write_text(json.dumps({"snapshot": described}))


def tar(members: list[Member]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


def special(kind: bytes, name: str, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


Spoil = Callable[[Offer], list[Member] | None]


def flip_in_content(offer: Offer) -> None:
    name, text = max(offer.files.items(), key=lambda each: len(each[1]))
    offer.files[name] = text[:-1] + bytes([text[-1] ^ 1])


def flip_in_archive(offer: Offer) -> None:
    content = bytearray(zstd.compress(tar(offer.members())))
    content[len(content) // 2] ^= 1
    offer.content = bytes(content)


def flip_in_checksummed_archive(offer: Offer) -> None:
    options = {int(zstd.CompressionParameter.checksum_flag): 1}
    content = bytearray(zstd.compress(tar(offer.members()), options=options))
    content[-1] ^= 1
    offer.content = bytes(content)


def truncate(offer: Offer) -> None:
    offer.content = zstd.compress(tar(offer.members()))[:-100]


def truncate_tar(offer: Offer) -> None:
    offer.content = zstd.compress(tar(offer.members())[:-30_000])


def break_header(offer: Offer) -> None:
    content = bytearray(tar(offer.members()))
    place = content.rfind(b"ustar")
    content[place - 100] ^= 1
    offer.content = zstd.compress(bytes(content))


def send_no_zstd(offer: Offer) -> None:
    offer.content = tar(offer.members())


def send_no_tar(offer: Offer) -> None:
    offer.content = zstd.compress(b"no archive " * 10_000)


def send_nothing(offer: Offer) -> None:
    offer.content = zstd.compress(b"")


def add(*members: Member, at: int = 99) -> Spoil:
    """Return a function that adds members; `ID` is the id of the snapshot."""

    def spoil(offer: Offer) -> list[Member]:
        added: list[Member] = []
        for name, content in members:
            if isinstance(name, str):
                added.append((name.replace("ID", offer.id), content))
            else:
                name.name = name.name.replace("ID", offer.id)
                added.append((name, content))
        return [*offer.members()[:at], *added, *offer.members()[at:]]

    return spoil


def name_file(path: str, content: bytes = b"x", **changes: Any) -> Spoil:
    """Return a function that names a file in the manifest, and packs it."""

    def spoil(offer: Offer) -> None:
        offer.name(path, content, **changes)

    return spoil


def omit_file(offer: Offer) -> list[Member]:
    return offer.members()[:-1]


def put_manifest_last(offer: Offer) -> list[Member]:
    return [*offer.members()[1:], offer.members()[0]]


def send_another(offer: Offer) -> list[Member]:
    return [("00" * 10 + "/" + MANIFEST, b"{}"), *offer.members()]


def name_another_id(offer: Offer) -> list[Member]:
    members = offer.members()
    text = json.dumps(offer.manifest | {"id": "00" * 10}).encode()
    return [(f"{offer.id}/{MANIFEST}", text), *members[1:]]


def take_a_foreign_id(offer: Offer) -> None:
    offer.manifest["id"] = "00" * 10


def change_manifest(**changes: object) -> Spoil:
    def spoil(offer: Offer) -> None:
        offer.manifest |= changes

    return spoil


def send_no_manifest(offer: Offer) -> list[Member]:
    return [(f"{offer.id}/{MANIFEST}", b"<html>"), *offer.members()[1:]]


def nest_manifest(offer: Offer) -> list[Member]:
    text = b"[" * 1_000_000
    return [(f"{offer.id}/{MANIFEST}", text), *offer.members()[1:]]


BOMB = 2**27


def inflate_manifest(offer: Offer) -> list[Member]:
    return [(f"{offer.id}/{MANIFEST}", bytes(BOMB)), *offer.members()[1:]]


def inflate_file(offer: Offer) -> None:
    offer.name("bomb", bytes(BOMB))


def inflate_unnamed(offer: Offer) -> list[Member]:
    return [*offer.members(), (f"{offer.id}/bomb", bytes(BOMB))]


def inflate_header(kind: bytes) -> Spoil:
    """Return a function that adds an extended header, which tarfile reads into memory."""

    def spoil(offer: Offer) -> None:
        header = special(kind, "x")
        header.size = BOMB
        block = header.tobuf(tarfile.USTAR_FORMAT)
        plain = tar(offer.members())
        offer.content = zstd.compress(block + bytes(BOMB) + plain)
        assert len(offer.content) < 1_000_000

    return spoil


def lengthen_file(offer: Offer) -> None:
    name = max(offer.files, key=lambda each: len(offer.files[each]))
    offer.files[name] += bytes(2**20)


def describe_sizes(size: int) -> Spoil:
    """Return a function that has the manifest state a size of one file."""

    def spoil(offer: Offer) -> None:
        first = min(offer.files)
        offer.manifest["files"][first]["bytes"] = size

    return spoil


def offset_sizes(offer: Offer) -> None:
    offer.name("huge", b"", bytes=10**15)
    offer.name("negative", b"", bytes=-(10**15))


def nest_files(offer: Offer) -> None:
    offer.name("a", b"x")
    offer.name("a/b", b"x")


REFUSED: dict[str, tuple[Spoil, str]] = {
    "a bit of a file": (flip_in_content, "is not what was published"),
    "a bit of the archive": (flip_in_archive, "."),
    "a bit of a checksum": (flip_in_checksummed_archive, "cannot be read"),
    "truncated": (truncate, "cannot be read"),
    "a truncated tar": (truncate_tar, r"lacks \d+ files|cannot be read"),
    "a header that is none": (break_header, "lacks 1 files|cannot be read"),
    "no zstd": (send_no_zstd, "cannot be read"),
    "no tar": (send_no_tar, "cannot be read"),
    "empty": (send_nothing, "cannot be read"),
    "a parent": (add(("ID/../../../escaped", b"x")), "manifest does not name"),
    "an absolute path": (add(("/tmp/escaped-copy", b"x")), "manifest does not name"),  # noqa: S108
    "another folder": (add(("other/escaped", b"x")), "manifest does not name"),
    "a symlink": (add((special(tarfile.SYMTYPE, "ID/x", "/etc/passwd"), b"")), "than files"),
    "a hard link": (add((special(tarfile.LNKTYPE, "ID/x", "ID/ids.arrays"), b"")), "than files"),
    "a device": (add((special(tarfile.CHRTYPE, "ID/x"), b"")), "than files"),
    "a pipe": (add((special(tarfile.FIFOTYPE, "ID/x"), b"")), "than files"),
    "a folder": (add((special(tarfile.DIRTYPE, "ID"), b"")), "than files"),
    "a folder first": (add((special(tarfile.DIRTYPE, "ID"), b""), at=0), "than files"),
    "a sparse file": (add((special(tarfile.GNUTYPE_SPARSE, "ID/x"), b"")), "than files"),
    "a long name": (add((f"ID/{'x' * 300}", b"")), "than files"),
    "a name in UTF-8": (add(("ID/\xe9\u202e", b"")), "than files"),
    "a manifest twice": (add(("ID/manifest.json", b"{}")), "manifest does not name"),
    "a file twice": (add(("ID/ids.arrays", b"x")), "manifest does not name"),
    "a file that is not named": (add(("ID/more", b"x")), "manifest does not name"),
    "a file that is missing": (omit_file, "lacks 1 files"),
    "the manifest last": (put_manifest_last, "does not begin with its manifest"),
    "another archive": (send_another, "does not begin with its manifest"),
    "a manifest of another id": (name_another_id, "holds the snapshot 0000"),
    "an id that is no hash": (take_a_foreign_id, "names other files than its id"),
    "no manifest": (send_no_manifest, "is not a manifest"),
    "a nested manifest": (nest_manifest, "is not a manifest"),
    "another format": (
        change_manifest(format=FORMAT + 1),
        f"reads format {FORMAT} and needs an update$",
    ),
    "a time without a zone": (change_manifest(built_at="2026-01-01T00:00:00"), "not a manifest"),
    "an inflated manifest": (inflate_manifest, "has a manifest of 134,217,728 bytes"),
    "an inflated file": (inflate_file, "is inflated to"),
    "an inflated file that is not named": (inflate_unnamed, "manifest does not name"),
    "an inflated header of pax": (inflate_header(tarfile.XHDTYPE), "than files"),
    "an inflated global header": (inflate_header(tarfile.XGLTYPE), "than files"),
    "an inflated long name": (inflate_header(tarfile.GNUTYPE_LONGNAME), "than files"),
    "an inflated long link": (inflate_header(tarfile.GNUTYPE_LONGLINK), "than files"),
    "a longer file": (lengthen_file, "manifest does not name"),
    "a huge size": (describe_sizes(10**15), "is inflated to"),
    "an endless size": (describe_sizes(10**40), "is not a manifest|is inflated to"),
    "a negative size": (describe_sizes(-1), "is not a manifest"),
    "sizes that cancel": (offset_sizes, "is not a manifest"),
    "a named parent": (name_file("../escaped"), "is not a manifest"),
    "a named parent below": (name_file("a/../../escaped"), "is not a manifest"),
    "a named absolute path": (name_file("/etc/passwd"), "is not a manifest"),
    "a named device": (name_file("/dev/zero", b""), "is not a manifest"),
    "a named null": (name_file("a\0b"), "is not a manifest"),
    "a named line": (name_file("a\nb"), "is not a manifest"),
    "a named slash": (name_file("a/"), "is not a manifest"),
    "a named nothing": (name_file(""), "is not a manifest"),
    "a named manifest": (name_file(MANIFEST), "manifest does not name"),
    "a file in a file": (nest_files, "."),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_an_archive_that_is_not_the_snapshot_is_refused_and_the_served_one_stays(
    fault: str,
    origin: FolderServer,
    home: Path,
    copy: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (copy / "snapshots").mkdir(parents=True)
    (one,) = snapshots(home) - {current(home)}
    shutil.copytree(home / "snapshots" / one, copy / "snapshots" / one)
    (copy / "CURRENT").write_text(f"{one}\n")
    (copy / ".lock").touch()
    spoil, reason = REFUSED[fault]
    offer = Offer(home)
    offer.publish(spoil(offer))
    before = files_of(tmp_path)
    tracemalloc.start()
    try:
        line = refusal(origin.url, copy, capsys)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = line.removeprefix("error: ").removesuffix("; what was served before stays")
    assert re.search(reason, said), said
    assert "ratecard build" not in said
    assert peak < 2**25
    after = files_of(tmp_path)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert {name for name in changed if not name.startswith("copy/incoming/")} == set()
    assert current(copy) == one
    assert not (copy / "staging").exists()
    assert not Path("/tmp/escaped-copy").exists()  # noqa: S108


NO_SNAPSHOT = "describes no snapshot"
OTHER_FILES = "names other files than those of"
DESCRIPTIONS: dict[str, tuple[Callable[[Json], Any], str]] = {
    "no object": (lambda _: [], NO_SNAPSHOT),
    "nothing": (lambda _: {}, NO_SNAPSHOT),
    "an id of a path": (lambda each: each | {"id": "../../etc"}, NO_SNAPSHOT),
    "an id of capitals": (lambda each: each | {"id": "A" * 20}, NO_SNAPSHOT),
    "a longer id": (lambda each: each | {"id": "a" * 20 + "\n"}, NO_SNAPSHOT),
    "a time that is none": (lambda each: each | {"checked_at": "now"}, NO_SNAPSHOT),
    "a time without a zone": (lambda each: each | {"checked_at": "2026-01-01"}, NO_SNAPSHOT),
    "no files": (lambda each: each | {"files": []}, "has no downloads"),
    "a hash of a path": (lambda each: changed(each, sha256="../../x"), OTHER_FILES),
    "a hash of nothing": (lambda each: changed(each, sha256=""), OTHER_FILES),
    "a path elsewhere": (lambda each: changed(each, path="../secret"), OTHER_FILES),
    "a path of a URL": (lambda each: changed(each, path="http://127.0.0.1/x"), OTHER_FILES),
    "a negative size": (lambda each: changed(each, bytes=-1), NO_SNAPSHOT),
    "a huge size": (lambda each: changed(each, bytes=2**62), "make room"),
    "a missing file": (lambda each: each | {"files": each["files"][:2]}, OTHER_FILES),
    "a file twice": (lambda each: each | {"files": [each["files"][0]] * 3}, OTHER_FILES),
}


def changed(described: Json, **changes: object) -> Json:
    first, *rest = described["files"]
    return described | {"files": [first | changes, *rest]}


def describe(home: Path, change: Callable[[Json], Any]) -> None:
    """Change the description of the current snapshot."""
    path = home / "downloads" / "current.json"
    described = json.loads(path.read_bytes())["snapshot"]
    path.write_text(json.dumps({"snapshot": change(described)}))


@pytest.mark.parametrize("fault", DESCRIPTIONS)
def test_a_description_that_is_none_is_refused(
    fault: str,
    origin: FolderServer,
    home: Path,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change, reason = DESCRIPTIONS[fault]
    describe(home, change)
    assert reason in refusal(origin.url, copy, capsys)
    assert {each.path for each in origin.served} == {"current.json"}
    assert not (copy / "CURRENT").exists()


@pytest.mark.parametrize(
    "text",
    [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b" " * (2**20 + 1), b'{"snapshot": 1}'],
    ids=["empty", "HTML", "bytes", "nested", "long", "number"],
)
def test_a_description_that_is_no_json_is_refused(
    text: bytes,
    origin: FolderServer,
    home: Path,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "downloads" / "current.json").write_bytes(text)
    assert re.search("describes no snapshot|is longer than", refusal(origin.url, copy, capsys))
    assert not copy.exists()


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_a_time_at_the_end_of_all_times_does_no_harm(
    moment: str, origin: FolderServer, home: Path, copy: Path
) -> None:
    describe(home, lambda each: each | {"checked_at": moment})
    before = datetime.now(UTC)
    assert fetch(origin.url, copy) == current(home)
    found = read_current(copy).checked_at
    assert found <= datetime.now(UTC)
    assert (found < before) == moment.startswith("0001")


def test_what_a_hostile_archive_adds_to_a_manifest_reaches_no_build(
    origin: FolderServer, home: Path, copy: Path
) -> None:
    offer = Offer(home)
    inputs = {"settings": "", "sources": "", "program": "", "versions": {}}
    offer.manifest |= {"inputs": inputs}
    members = offer.members()
    info = tarfile.TarInfo(f"{offer.id}/{min(offer.files)}")
    info.mode, info.mtime = 0o4000, 2**32
    offer.publish([members[0], (info, members[1][1]), *members[2:]])
    fetch(origin.url, copy)
    assert read_manifest(folder(copy)).inputs is None
    states = [path.stat() for path in folder(copy).rglob("*") if path.is_file()]
    assert {state.st_mode & 0o7777 for state in states} == {0o644}


# The folder of a copy


def test_without_room_nothing_is_downloaded(
    origin: FolderServer,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**26))
    assert "make room" in refusal(origin.url, copy, capsys)
    assert {each.path for each in origin.served} == {"current.json"}


def test_what_was_downloaded_needs_no_room_again(
    origin: FolderServer, home: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = max(
        (home / "downloads").glob(f"{current(home)}.*"), key=lambda each: each.stat().st_size
    )
    half = path.stat().st_size // 2
    origin.cut = lambda name: half if name == path.name else None
    origin.has_ranges = False
    with pytest.raises(FetchFailed):
        fetch(origin.url, copy)
    origin.cut, origin.has_ranges = lambda _: None, True
    needed = []
    monkeypatch.setattr(fetching, "_check_room", lambda _, size: needed.append(size))
    fetch(origin.url, copy)
    assert needed[0] == path.stat().st_size - half


@pytest.mark.skipif(os.geteuid() != 0, reason=ROOT_ONLY)
@pytest.mark.parametrize("kilobytes", [64, 200, 600])
@pytest.mark.parametrize("room", [2**26, -(2**50)], ids=["checked", "taken meanwhile"])
def test_a_full_disk_leaves_what_was_served_and_more_room_ends_it(
    kilobytes: int,
    room: int,
    origin: FolderServer,
    home: Path,
    larger: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "ROOM", room)
    disk = tmp_path / "disk"
    disk.mkdir()
    if run_mount("-t", "tmpfs", "-o", "size=100m", "tmpfs", str(disk)):
        pytest.skip(ROOT_ONLY)
    try:
        copy = disk / "copy"
        fetch(origin.url, copy)
        served, whole = current(copy), files_of(copy)
        shutil.copytree(larger, home, dirs_exist_ok=True)
        used = sum(-(-len(each) // 4096) * 4 for each in whole.values()) + kilobytes
        assert not run_mount("-o", f"remount,size={used}k", str(disk))
        assert re.search("make room|No space left", refusal(origin.url, copy, capsys))
        assert current(copy) == served
        verify(folder(copy))
        assert not run_mount("-o", "remount,size=100m", str(disk))
        check_copy(origin.url, copy, home)
    finally:
        subprocess.run(["umount", str(disk)], check=True)  # noqa: S607


def run_mount(*arguments: str) -> int:
    command = ["mount", *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.parametrize("step", ["add_downloads", "publish", "name_current"])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_is_made_good_without_another_download(
    step: str,
    is_after: bool,
    origin: FolderServer,
    home: Path,
    copy: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    act = getattr(fetching, step)

    def crash(*arguments: Any) -> None:
        if is_after:
            act(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, step, crash)
    with pytest.raises(KeyboardInterrupt):
        fetch(origin.url, copy)
    monkeypatch.setattr(fetching, step, act)
    origin.served.clear()
    fetch(origin.url, copy)
    assert {each.path for each in origin.served} == {"current.json"}
    check_equal(copy, home)


@pytest.mark.parametrize("damage", ["a file", "a download", "CURRENT", "the snapshot"])
def test_a_damaged_copy_is_made_good_by_the_next_run(
    damage: str, origin: FolderServer, home: Path, copy: Path
) -> None:
    fetch(origin.url, copy)
    if damage == "a file":
        flip_a_bit(max(folder(copy).glob("*.arrays")))
    elif damage == "a download":
        (copy / "downloads" / f"{current(home)}.jsonl.zst").unlink()
    elif damage == "CURRENT":
        (copy / "CURRENT").write_text("nothing")
    else:
        shutil.rmtree(folder(copy))
    fetch(origin.url, copy)
    check_equal(copy, home)


def test_a_build_keeps_a_copy_waiting(
    origin: FolderServer, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(copy):
        assert "another build is at work" in refusal(origin.url, copy, capsys)
    assert fetched(origin.url, copy, capsys).startswith("published ")


def test_looking_again_outlives_failures_and_says_a_repeated_one_once(
    origin: FolderServer,
    home: Path,
    copy: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, looks = current(home), count(1)

    def sleep(seconds: float) -> None:
        assert seconds == 7
        look = next(looks)
        if look == 3:
            origin.status = lambda _: 404
        elif look == 6:
            origin.status = lambda _: 403
        elif look == 8:
            origin.status = lambda _: None
            publish(home, 3)
        elif look == 10:
            origin.status = lambda _: 404
        elif look == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    assert main([origin.url, "--artifacts", str(copy), "--every", "7"]) == 130
    output = capsys.readouterr()
    assert output.out.splitlines() == [f"published {each}" for each in (first, current(home))]
    assert re.findall(r"answers (\d+)", output.err) == ["404", "403", "404"]
    assert len(output.err.splitlines()) == 3


# Rollbacks and times


def test_a_rollback_of_the_origin_is_followed_without_a_download(
    home: Path, origin: FolderServer, copy: Path, tmp_path: Path
) -> None:
    first = current(home)
    fetch(origin.url, copy)
    second = publish(home, 3)
    assert fetch(origin.url, copy) == second
    roll_back(home)
    origin.served.clear()
    assert fetch(origin.url, copy) == first
    assert {each.path for each in origin.served} == {"current.json"}
    check_equal(copy, home)
    assert read_current(copy).checked_at == checked_at(home)
    assert snapshots(copy) == {first, second}
    roll_back(copy)
    assert current(copy) == second
    assert fetch(origin.url, copy) == first
    late = tmp_path / "late"
    check_copy(origin.url, late, home)


def test_a_denial_of_what_an_earlier_snapshot_had_removes_its_downloads_from_copies(
    home: Path, origin: FolderServer, copy: Path
) -> None:
    fetch(origin.url, copy)
    second = publish(home, 3)
    assert fetch(origin.url, copy) == second
    third = publish(home, 3, "--deny", "id:gone")  # which changes nothing that is listed
    assert fetch(origin.url, copy) == third
    check_equal(copy, home)
    assert {name.partition(".")[0] for name in files_of(copy / "downloads")} == {third, "current"}
    assert publish(home, 3, "--deny", "id:gone") == third
    assert publish(home, 3) == second, "without denials the id is that of the content"


def test_a_snapshot_was_checked_when_the_origin_checked_it(
    home: Path, origin: FolderServer, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(origin.url, copy)
    before = checked_at(home)
    publish(home, 2)
    assert checked_at(home) > before
    assert fetched(origin.url, copy, capsys) == "nothing new"
    assert read_current(copy).checked_at == checked_at(home)
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    describe(home, lambda each: each | {"checked_at": later})
    fetch(origin.url, copy)
    assert read_current(copy).checked_at <= datetime.now(UTC)


def test_as_many_snapshots_are_kept_as_asked_for(
    home: Path, origin: FolderServer, copy: Path
) -> None:
    for edition in range(3, 7):
        publish(home, edition)
        assert main([origin.url, "--artifacts", str(copy), "--keep", "2"]) == 0
    assert len(snapshots(copy)) == 2
    kept = {path.name.partition(".")[0] for path in (copy / "downloads").iterdir()}
    assert kept - {"current"} == snapshots(copy)


def test_an_origin_without_downloads_is_told_apart(
    home: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(home / "downloads")
    with serve(home) as client:
        assert "build there without --no-downloads" in refusal(str(client.base_url), copy, capsys)


def test_what_answers_is_no_ratecard(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TemporaryDirectory() as tmp, serve_folder(Path(tmp)) as origin:
        url = origin.url.removesuffix("/current.json")
        assert "give a Ratecard or a `current.json`" in refusal(url, copy, capsys)
