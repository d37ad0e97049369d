"""Loading into a server that refuses documents, and cleaning beside other folders."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from indexer.__main__ import main
from indexer.opensearch import loading
from indexer.opensearch.loading import OWNER, ClusterFailed, SearchCluster
from indexer.options import ClusterOptions
from indexer.progress import Progress
from service.arrays.container import open_arrays, writing_arrays
from service.arrays.texts import Texts, write_texts
from service.snapshot.snapshot import Snapshot, open_snapshot
from tests.support.cluster.stub import Answer, Stub, run_stub
from tests.support.running import service, write_lines

SERVICES = 30


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("loading")
    source = write_lines(folder / "a.jsonl", [service(f"s{n}") for n in range(SERVICES)])
    out = folder / "artifacts"
    assert main(["build", source, "--no-semantic", "--no-downloads", "--out", str(out)]) == 0
    return open_snapshot(out)


class Busy:
    """Answers as a cluster that refuses each document some times."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.sent: Counter[str] = Counter()
        self.stub: Stub | None = None

    def answer(self, path: str) -> Answer:
        assert self.stub is not None
        _, _, body = self.stub.requests[-1]
        is_loaded = any("/_bulk" in each[1] for each in self.stub.requests)
        if "/_bulk" in path:
            return 200, {"errors": True, "items": [*map(self._item, body.splitlines()[::2])]}
        if "_count" in path:
            return 200, {"count": SERVICES if is_loaded else 0}
        return 200, {"acknowledged": True}

    def _item(self, action: bytes) -> dict[str, object]:
        text = action.decode()
        self.sent[text] += 1
        if self.sent[text] > self.refusals:
            return {"index": {"status": 201}}
        return {"index": {"status": 429, "error": {"type": "rejected", "reason": "queue is full"}}}


def load(snapshot: Snapshot, folder: Path, busy: Busy) -> None:
    """Load a snapshot without waiting before documents are sent again."""
    with writing_arrays(folder / "annotations.arrays") as writer:
        write_texts(writer, "annotations", [b""] * SERVICES)
    with run_stub(busy.answer) as stub:
        busy.stub = stub
        annotations = Texts(open_arrays(folder / "annotations.arrays"), "annotations")
        cluster_of(stub, folder).load(snapshot, annotations, Progress(quiet=True))


def cluster_of(stub: Stub, folder: Path) -> SearchCluster:
    return SearchCluster(ClusterOptions({"hosts": [stub.url]}, "shop"), folder)


def test_refused_documents_are_sent_again(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    busy = Busy(refusals=2)
    load(snapshot, tmp_path, busy)
    assert len(busy.sent) == SERVICES
    assert set(busy.sent.values()) == {3}


def test_documents_that_are_always_refused_fail_the_load(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    busy = Busy(refusals=1000)
    with pytest.raises(ClusterFailed, match="queue is full"):
        load(snapshot, tmp_path, busy)
    assert max(busy.sent.values()) == loading.RETRIES + 1


def test_the_alias_is_switched_in_one_request(snapshot: Snapshot, tmp_path: Path) -> None:
    with run_stub(lambda _: (200, {"acknowledged": True})) as stub:
        cluster_of(stub, tmp_path).switch(snapshot.manifest)
    ((method, path, body),) = stub.requests
    assert (method, path.partition("?")[0]) == ("POST", "/_aliases")
    removed = {"index": "shop-*", "alias": "shop", "must_exist": False}
    added = {"index": f"shop-{snapshot.id}", "alias": "shop"}
    assert json.loads(body)["actions"] == [{"remove": removed}, {"add": added}]


def test_indexes_of_others_and_those_that_are_used_stay(tmp_path: Path) -> None:
    (tmp_path / OWNER).write_text("me")
    owners = {"shop-aaaa": "me", "shop-bbbb": "me", "shop-cccc": "me", "shop-dddd": "other"}
    indexes = {
        name: {"mappings": {"_meta": {OWNER: owner}}, "aliases": {}}
        for name, owner in owners.items()
    }
    indexes["shop-bbbb"]["aliases"] = {"shop": {}}
    indexes["shop-logs"] = {"mappings": {}, "aliases": {}}

    def answer(path: str) -> Answer:
        return 200, indexes if path.startswith("/shop-*") else {"acknowledged": True}

    with run_stub(answer) as stub:
        cluster_of(stub, tmp_path).clean(["cccc"])
    removed = [path for method, path, _ in stub.requests if method == "DELETE"]
    assert [path.partition("?")[0] for path in removed] == ["/shop-aaaa"]
