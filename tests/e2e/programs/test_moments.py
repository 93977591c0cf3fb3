"""Pods created at any moment of a layout change wait for their slice; none fails.

The moments are random; `make test` tries some, `make soak` two hundred of each.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, gpu_nodes, until
from support.cluster.kubelet_settings import default_status_period

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
# With the default kubelet status period, which is five times that of the demo's nodes.
SLOW = [pytest.param(50, marks=(pytest.mark.soak, pytest.mark.alone))]
LATE = f"OutOfgpu.tessera.dev/mig-{PROFILE}"
LATE_AT_MOST = 2
"""The most pods of such a test that a busy kubelet may refuse: see ADR 108, "What remains"."""


@pytest.fixture
def node(whole_cluster: Cluster) -> str:
    return gpu_nodes(whole_cluster)[0]


@pytest.fixture
def flipping_layout(whole_cluster: Cluster) -> Iterator[str]:
    """The name of the layout that alternates; it is deleted afterwards."""
    yield "flipped"
    whole_cluster.delete("miglayout", "flipped")


@pytest.fixture
def authors(whole_cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The names of two authors' layouts; they are deleted afterwards."""
    names = ("author-a", "author-b")
    yield names
    for name in names:
        whole_cluster.delete("miglayout", name)


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
    """Pods that request a slice and end at once; ``keep_waiting`` keeps a number of them
    waiting.
    """

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

    def failures(self, late_at_most: int = 0) -> list[str]:
        """Return the reasons of pods that failed; up to ``late_at_most`` pods that their kubelet
        refused because its status was late are excused.
        """
        failed = [one for one in self.pods() if one["status"].get("phase") == "Failed"]
        late = [one for one in failed if one["status"].get("reason") == LATE]
        excused = late if len(late) <= late_at_most else []
        return [_why(one) for one in failed if one not in excused]

    def outcomes(self) -> Counter[str]:
        return Counter(str(one["status"].get("phase")) for one in self.pods())


def _why(pod: dict[str, Any]) -> str:
    status = pod["status"]
    ended = [one["state"].get("terminated") for one in status.get("containerStatuses", ())]
    return f"{pod['metadata']['name']}: {status.get('reason')} {status.get('message')} {ended}"


def flip(
    cluster: Cluster,
    stream: Stream,
    node: str,
    layout: str,
    moments: int,
    longest_s: float,
    late_at_most: int = 0,
) -> None:
    """Alternate a layout ``moments`` times while pods wait for a slice of it; none may fail."""
    drawn = random.Random(moments)
    for moment in range(moments):
        stream.keep_waiting(5)
        edit(cluster, node, WITHOUT if moment % 2 else WITH, layout)
        time.sleep(drawn.uniform(1.5, longest_s))
        assert stream.failures(late_at_most) == []
    edit(cluster, node, WITH, layout)
    until(lambda: not stream.outcomes()["Pending"], 120)
    until(lambda: not stream.outcomes()["Running"], 60)
    print(dict(stream.outcomes()))
    assert stream.failures(late_at_most) == []
    assert stream.outcomes()["Succeeded"] >= 5


def flipped_pods(cluster: Cluster, sample_pod: Manifest, node: str) -> Stream:
    """Return a stream of pods that end at once, so that their slices are soon free again."""

    def make(name: str) -> dict[str, Any]:
        pod = sample_pod(name, node=node, profile=PROFILE)
        pod["spec"]["containers"][0]["command"] = ["true"]
        return pod

    return Stream(cluster, make)


def edit_by_turns(
    cluster: Cluster,
    stream: Stream,
    node: str,
    authors: tuple[str, str],
    edits: int,
    pauses_s: tuple[float, ...],
) -> None:
    """Edit and delete two authors' layouts of one GPU ``edits`` times; no pod may fail."""
    drawn = random.Random(edits)
    for number in range(edits):
        author = drawn.choice(authors)
        if drawn.random() < 0.12:
            cluster.delete("miglayout", author)
        else:
            rollout = {
                "onInUse": drawn.choice(("Wait", "Evict")),
                "deadlineSeconds": drawn.choice((5, 30, 600)),
            }
            edit(cluster, node, drawn.choice(LAYOUTS), author, **rollout)
        if number % 2:
            stream.add(1)
        time.sleep(drawn.choice(pauses_s))
        assert stream.failures() == []
    print(dict(stream.outcomes()))


def pods_of_any_profile(cluster: Cluster, sample_pod: Manifest, node: str | None = None) -> Stream:
    """Return a stream of pods that compute for some seconds on a slice of a random profile."""
    drawn = random.Random(0)

    def make(name: str) -> dict[str, Any]:
        profile = drawn.choice(("1g.10gb", PROFILE, "3g.40gb", "7g.80gb"))
        seconds = drawn.choice("038")
        return sample_pod(name, "--n", "1024", "--seconds", seconds, node=node, profile=profile)

    return Stream(cluster, make)


@pytest.mark.parametrize("moments", MOMENTS)
def test_no_pod_fails_while_a_layout_flips(
    whole_cluster: Cluster,
    namespace: Cluster,
    sample_pod: Manifest,
    node: str,
    flipping_layout: str,
    moments: int,
) -> None:
    """Pods always wait for a slice that every other layout has."""
    edit(whole_cluster, node, WITHOUT, flipping_layout)
    stream = flipped_pods(namespace, sample_pod, node)
    flip(whole_cluster, stream, node, flipping_layout, moments, longest_s=4)


@pytest.mark.parametrize("edits", SOAK)
def test_no_pod_fails_while_two_authors_edit(
    whole_cluster: Cluster,
    namespace: Cluster,
    sample_pod: Manifest,
    node: str,
    authors: tuple[str, str],
    edits: int,
) -> None:
    stream = pods_of_any_profile(namespace, sample_pod)
    edit_by_turns(whole_cluster, stream, node, authors, edits, (0.3, 2, 4, 6))


@pytest.mark.parametrize("moments", SLOW)
def test_no_pod_fails_while_a_layout_flips_at_the_default_status_period(
    whole_cluster: Cluster,
    namespace: Cluster,
    sample_pod: Manifest,
    node: str,
    flipping_layout: str,
    moments: int,
) -> None:
    """The node's kubelet reports its offer five times as late."""
    with default_status_period(node):
        edit(whole_cluster, node, WITHOUT, flipping_layout)
        stream = flipped_pods(namespace, sample_pod, node)
        flip(whole_cluster, stream, node, flipping_layout, moments, 13, LATE_AT_MOST)


@pytest.mark.parametrize("edits", SLOW)
def test_no_pod_fails_while_two_authors_edit_at_the_default_status_period(
    whole_cluster: Cluster,
    namespace: Cluster,
    sample_pod: Manifest,
    authors: tuple[str, str],
    edits: int,
) -> None:
    """On another node than the previous test, so that both can be run concurrently by hand."""
    other = gpu_nodes(whole_cluster)[-1]
    with default_status_period(other):
        stream = pods_of_any_profile(namespace, sample_pod, other)
        edit_by_turns(whole_cluster, stream, other, authors, edits, (0.3, 2, 6, 14))
