"""The cluster that the other tests of this folder run on."""

from __future__ import annotations

import httpx

from tests.support.cluster.cluster import Cluster


def test_an_index_with_replicas_survives_a_killed_node(cluster: Cluster, prefix: str) -> None:
    cluster.wait_for(3)
    delay = {"index.unassigned.node_left.delayed_timeout": "0s"}
    body = {"settings": {"number_of_shards": 3, "number_of_replicas": 1, **delay}}
    with httpx.Client(base_url=cluster.urls[0], timeout=60) as client:
        assert client.put(f"/{prefix}", json=body).status_code == 200
        for number in range(30):
            path = f"/{prefix}/_doc/{number}?refresh=true"
            assert client.put(path, json={"number": number}).status_code == 201
        cluster.wait_for(3)
        try:
            cluster.kill(2)
            cluster.wait_for(2, "green")
            assert client.get(f"/{prefix}/_count").json()["count"] == 30
        finally:
            cluster.start(2)
            cluster.wait_for(3)
        assert client.get(f"/{prefix}/_count").json()["count"] == 30
        assert client.delete(f"/{prefix}").status_code == 200
