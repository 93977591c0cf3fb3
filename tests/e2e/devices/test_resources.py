"""The custom resources: layouts reach the GPUs, and impossible requests are rejected with a
message.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster.kubectl import EXAMPLES, Cluster, until, without_gone


def wait_until_rejected(cluster: Cluster, kind: str, name: str, reason: str) -> str:
    """Wait for ``Accepted=False`` with that reason; return the message."""

    def check() -> str | None:
        found = cluster.condition(f"{kind}/{name}", "Accepted")
        return found.message if (found.status, found.reason) == ("False", reason) else None

    return str(until(check))


def manifest(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpu.tessera.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
def scratch(whole_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster; pools and layouts called ``scratch`` are deleted after the test."""
    yield whole_cluster
    whole_cluster.delete("miglayout,gpupool", "scratch")


def test_every_gpu_node_offers_seven_small_slices(whole_cluster: Cluster) -> None:
    def offered() -> list[str | None]:
        nodes = whole_cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
        return [node["status"]["allocatable"].get("gpu.tessera.dev/mig-1g.10gb") for node in nodes]

    until(lambda: offered() == ["7", "7"])  # a kubelet may have just restarted


def test_the_mixed_layout_comes_and_goes(whole_cluster: Cluster) -> None:
    """The nodes' status shows its slices; soon after its deletion none of them is offered any
    more.
    """

    def offered() -> list[dict[str, str]]:
        return without_gone(whole_cluster.offered_slices())

    whole_cluster.kubectl("apply", "-f", str(EXAMPLES / "layout-h100-mixed.yaml"))
    whole_cluster.kubectl("wait", "--for=condition=Ready", "miglayout/mixed", "--timeout=60s")
    both = {"1g.10gb": "7", "2g.20gb": "2", "3g.40gb": "1"}
    until(lambda: offered() == [both] * 2)
    whole_cluster.delete("miglayout", "mixed")
    until(lambda: offered() == [{"1g.10gb": "7"}] * 2)


def test_a_profile_that_has_gone_is_offered_no_more(
    whole_cluster: Cluster, retired_profile: str
) -> None:
    """The kubelet reports 0 of it, until it forgets the name (``test_retirement``).

    Until the agent has taken the slices off its list, a kubelet may raise what the operator has
    lowered, for a moment (ADR 108).
    """
    until(lambda: [one[retired_profile] for one in whole_cluster.offered_slices()] == ["0", "0"])


def test_an_unknown_board_is_refused(scratch: Cluster) -> None:
    scratch.apply(manifest("GPUPool", "scratch", nodeSelector={"no": "node"}, board="h1000"))
    assert "h1000" in wait_until_rejected(scratch, "gpupool", "scratch", "UnknownBoard")


def test_of_two_pools_on_a_node_the_younger_steps_back(scratch: Cluster) -> None:
    selector = {"node-role.tessera.dev/gpu": ""}
    scratch.apply(manifest("GPUPool", "scratch", nodeSelector=selector, board="a30"))
    assert "demo" in wait_until_rejected(scratch, "gpupool", "scratch", "NodeConflict")
    assert scratch.condition("gpupool/demo", "Ready").status == "True"


def test_a_layout_that_no_board_can_hold_is_refused(scratch: Cluster) -> None:
    """Two 4g.40gb do not fit one H100."""
    scratch.apply(
        manifest(
            "MIGLayout",
            "scratch",
            selector={"pool": "demo", "indices": [1]},
            instances=[{"profile": "4g.40gb", "count": 2}],
        )
    )
    assert "4g.40gb" in wait_until_rejected(scratch, "miglayout", "scratch", "NotPlaceable")


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"board": "h100-80gb"}, "nodeSelector"), ({"board": "a30", "count": 9}, "count")],
)
def test_a_malformed_pool_does_not_pass_the_schema(
    scratch: Cluster, spec: dict[str, Any], field: str
) -> None:
    if field != "nodeSelector":
        spec = {"nodeSelector": {"no": "node"}, **spec}
    with pytest.raises(AssertionError, match=field):
        scratch.apply(manifest("GPUPool", "scratch", **spec))
