"""At any moment of a change of layouts a pod may come: it waits, and none fails.

The moments are drawn; `make test` tries some, `make soak` two hundred of each.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, until

Manifest = Callable[..., dict[str, Any]]
PROFILE = "2g.20gb"
WITHOUT, WITH = [("7g.80gb", 1)], [(PROFILE, 3)]
LAYOUTS = (
    [("1g.10gb", 7)],
    [("3g.40gb", 1), (PROFILE, 2)],
    [("3g.40gb", 2)],
    WITHOUT,
    [("1g.10gb", 3), (PROFILE, 2)],
    [(PROFILE, 3), ("1g.10gb", 1)],
    [("3g.40gb", 3)],  # no board can hold these
    [("7g.80gb", 1), ("1g.10gb", 1)],
)
MOMENTS = [10, pytest.param(200, marks=pytest.mark.soak)]
SOAK = [pytest.param(200, marks=pytest.mark.soak)]


@pytest.fixture
def node(whole_cluster: Cluster) -> str:
    nodes = whole_cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return str(min(one["metadata"]["name"] for one in nodes))


@pytest.fixture(autouse=True)
def layouts(whole_cluster: Cluster) -> Iterator[None]:
    yield
    for author in ("author-a", "author-b"):
        whole_cluster.delete("miglayout", author)


def edit(
    cluster: Cluster, node: str, instances: list[tuple[str, int]], author: str, **rollout: Any
) -> None:
    """Apply an author's layout of the node's second GPU."""
    cluster.apply(
        {
            "apiVersion": "gpu.tessera.dev/v1alpha1",
            "kind": "MIGLayout",
            "metadata": {"name": author},
            "spec": {
                "selector": {"pool": "demo", "nodeNames": [node], "indices": [1]},
                "instances": [{"profile": p, "count": count} for p, count in instances],
                "rollout": rollout,
            },
        }
    )


class Stream:
    """Pods that ask for a slice and end at once; so many of them wait at any time."""

    def __init__(self, cluster: Cluster, make: Callable[[str], dict[str, Any]]) -> None:
        self._cluster = cluster
        self._make = make
        self._made = 0

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._cluster.get("pods")["items"]
        return found

    def keep_waiting(self, count: int) -> None:
        waiting = sum(one["status"].get("phase") == "Pending" for one in self.pods())
        self.add(count - waiting)

    def add(self, count: int) -> None:
        names = range(self._made, self._made + max(count, 0))
        if names:
            self._made = names.stop
            self._cluster.apply(*(self._make(f"moment-{number}") for number in names))

    def failures(self) -> list[str]:
        """Return what is said of pods that failed."""
        return [_why(one) for one in self.pods() if one["status"].get("phase") == "Failed"]

    def outcomes(self) -> Counter[str]:
        return Counter(str(one["status"].get("phase")) for one in self.pods())


def _why(pod: dict[str, Any]) -> str:
    status = pod["status"]
    ended = [one["state"].get("terminated") for one in status.get("containerStatuses", ())]
    return f"{pod['metadata']['name']}: {status.get('reason')} {status.get('message')} {ended}"


@pytest.mark.parametrize("moments", MOMENTS)
def test_no_pod_fails_while_a_layout_flips(
    whole_cluster: Cluster, namespace: Cluster, sample_pod: Manifest, node: str, moments: int
) -> None:
    """Pods always wait for a slice that one layout has and the next one has not."""
    drawn = random.Random(moments)
    edit(whole_cluster, node, WITHOUT, "author-a")

    def make(name: str) -> dict[str, Any]:
        pod = sample_pod(name, node=node, profile=PROFILE)
        pod["spec"]["containers"][0]["command"] = ["true"]  # so that slices are soon free again
        return pod

    stream = Stream(namespace, make)
    for moment in range(moments):
        stream.keep_waiting(5)
        edit(whole_cluster, node, WITHOUT if moment % 2 else WITH, "author-a")
        time.sleep(drawn.uniform(1.5, 4))
        assert stream.failures() == []
    edit(whole_cluster, node, WITH, "author-a")
    until(lambda: not stream.outcomes()["Pending"], 120)
    until(lambda: not stream.outcomes()["Running"], 60)
    assert stream.failures() == []
    assert stream.outcomes()["Succeeded"] >= 5


@pytest.mark.parametrize("edits", SOAK)
def test_no_pod_fails_while_two_authors_edit(
    whole_cluster: Cluster, namespace: Cluster, sample_pod: Manifest, node: str, edits: int
) -> None:
    drawn = random.Random(edits)

    def make(name: str) -> dict[str, Any]:
        profile = drawn.choice(("1g.10gb", PROFILE, "3g.40gb", "7g.80gb"))
        return sample_pod(name, "--n", "1024", "--seconds", drawn.choice("038"), profile=profile)

    stream = Stream(namespace, make)
    for number in range(edits):
        author = drawn.choice(("author-a", "author-b"))
        if drawn.random() < 0.12:
            whole_cluster.delete("miglayout", author)
        else:
            rollout = {
                "onInUse": drawn.choice(("Wait", "Evict")),
                "deadlineSeconds": drawn.choice((5, 30, 600)),
            }
            edit(whole_cluster, node, drawn.choice(LAYOUTS), author, **rollout)
        if number % 2:
            stream.add(1)
        time.sleep(drawn.choice((0.3, 2, 4, 6)))
        assert stream.failures() == []
