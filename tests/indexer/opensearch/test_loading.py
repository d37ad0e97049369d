"""Loading against a server that refuses documents, and cleaning beside other prefixes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.opensearch import loading
from indexer.opensearch.loading import ClusterFailed, SearchCluster
from indexer.options import ClusterOptions
from indexer.progress import Progress
from service.opensearch.connection import ClusterAddress
from tests.support.cluster.stub import Answer, Stub, run_stub
from tests.support.running import service, write_lines

SERVICES = 30
ID = "0123456789abcdef0123"
NAME = f"shop-{ID}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a snapshot with its postings."""
    folder = tmp_path_factory.mktemp("loading")
    source = write_lines(folder / "a.jsonl", [service(f"s{n}") for n in range(SERVICES)])
    out = folder / "artifacts"
    assert main(["build", source, "--no-semantic", "--no-downloads", "--out", str(out)]) == 0
    (snapshot,) = (out / "snapshots").iterdir()
    return snapshot


def described(owner: str, *, complete: bool, **more: str) -> dict[str, object]:
    meta = {"owner": owner} | ({"is_complete": True} if complete else {}) | more
    return {"mappings": {"_meta": {"ratecard": meta}}}


class Busy:
    """Answers as a cluster that refuses each document some times."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.sent: Counter[str] = Counter()
        self.stub: Stub | None = None

    def answer(self, path: str) -> Answer:
        assert self.stub is not None
        method, _, body = self.stub.requests[-1]
        if path.startswith("/_bulk"):
            return 200, {"errors": True, "items": [*map(self._item, body.splitlines()[::2])]}
        if "_count" in path:
            return 200, {"count": SERVICES, "_shards": {"successful": 1, "total": 1}}
        if "_forcemerge" in path:
            return 200, {"_shards": {"failed": 0}}
        if "_mapping" in path and method == "GET":
            loaded = any(each[1].startswith("/_bulk") for each in self.stub.requests)
            return 200, {NAME: described("me", complete=False)} if loaded else {}
        if "_stats" in path:
            return 200, {"_all": {"primaries": {"store": {"size_in_bytes": 7}}}}
        return 200, {"status": "green", "acknowledged": True}

    def _item(self, action: bytes) -> dict[str, object]:
        text = action.decode()
        self.sent[text] += 1
        if self.sent[text] > self.refusals:
            return {"index": {"status": 201}}
        return {"index": {"status": 429, "error": {"type": "rejected", "reason": "queue is full"}}}


def cluster_of(stub: Stub, folder: Path) -> SearchCluster:
    return SearchCluster(ClusterOptions(ClusterAddress(stub.url), "shop"), folder)


def test_refused_documents_are_sent_again(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "BACKOFF", 0.001)
    monkeypatch.setattr(loading, "THREADS", 1)
    busy = Busy(refusals=2)
    with run_stub(busy.answer) as stub:
        busy.stub = stub
        loaded = cluster_of(stub, tmp_path).load(built, ID, Progress(quiet=True))
    assert (loaded.documents, loaded.bytes) == (SERVICES, 7)
    assert set(busy.sent.values()) == {3}


def test_documents_that_are_always_refused_fail_the_load(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "BACKOFF", 0.001)
    monkeypatch.setattr(loading, "THREADS", 1)
    busy = Busy(refusals=1000)
    with run_stub(busy.answer) as stub:
        busy.stub = stub
        with pytest.raises(ClusterFailed, match="rejected: queue is full"):
            cluster_of(stub, tmp_path).load(built, ID, Progress(quiet=True))
    assert max(busy.sent.values()) == loading.REPEATS + 1


def test_the_alias_is_switched_in_one_request(tmp_path: Path) -> None:
    with run_stub(lambda _: (200, {"acknowledged": True})) as stub:
        cluster_of(stub, tmp_path).switch(NAME)
    ((method, path, body),) = stub.requests
    assert (method, path.partition("?")[0]) == ("POST", "/_aliases")
    actions = json.loads(body)["actions"]
    removed = {"index": "shop-*", "alias": "shop", "must_exist": False}
    assert actions == [{"remove": removed}, {"add": {"index": NAME, "alias": "shop"}}]


def test_indexes_that_an_alias_or_a_longer_prefix_has_stay(tmp_path: Path) -> None:
    old = "2001-01-01T00:00:00Z"
    indexes = {
        NAME: described("other", complete=True, retired_at=old),
        "shop-ffff": described("other", complete=True, retired_at=old),
        f"shop-services-services-{ID}": described("other", complete=True, retired_at=old),
        f"shop-services-{ID}": described("other", complete=True, retired_at=old),
        f"shop-x-{ID}": described("other", complete=False),
    }

    def answer(path: str) -> Answer:
        if "_alias" in path:
            return 200, {NAME: {"aliases": {"shop": {}}}}
        if "_mapping" in path:
            return 200, indexes
        return 200, {"acknowledged": True}

    with run_stub(answer) as stub:
        cluster_of(stub, tmp_path).clean([])
    removed = [path for method, path, _ in stub.requests if method == "DELETE"]
    assert [path.partition("?")[0] for path in removed] == ["/shop-ffff"]


def test_the_two_indexes_of_an_earlier_version_are_removed_by_their_folder(tmp_path: Path) -> None:
    cleaned: list[tuple[str, str]] = []
    (tmp_path / loading.OWNER).write_text("me")
    names = (f"shop-services-{ID}", f"shop-endpoints-{ID}")
    meta: dict[str, str] = {}

    def answer(path: str) -> Answer:
        if "_alias" in path:
            return 404, {"error": "alias [shop] missing", "status": 404}
        if "_mapping" in path:
            return 200, {name: described("me", complete=True, **meta) for name in names}
        return 200, {"acknowledged": True}

    for retired_at in ("", "2001-01-01T00:00:00Z"):
        meta = {"retired_at": retired_at} if retired_at else {}
        with run_stub(answer) as stub:
            cluster_of(stub, tmp_path).clean([ID])
        cleaned += [(each[0], each[1].partition("?")[0]) for each in stub.requests]
    marked = [("PUT", f"/{name}/_mapping") for name in names]
    removed = [("DELETE", f"/{name}") for name in names]
    assert [each for each in cleaned if each[0] != "GET"] == [*marked, *removed]
