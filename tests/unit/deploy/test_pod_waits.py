"""What a wait for a pod reports if the pod does not come to the phase."""

import pytest

from support.cluster import kubectl
from support.cluster.kubectl import Cluster

PODS = {
    "server": {"metadata": {"name": "server"}, "status": {"phase": "Failed"}},
    "client": {"metadata": {"name": "client"}, "status": {"phase": "Running"}},
    "late": {"metadata": {"name": "late"}, "status": {"phase": "Pending"}},
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster with three pods, of which one has no output yet."""

    def get(_: Cluster, *arguments: str) -> object:
        return {"items": [*PODS.values()]} if arguments == ("pods",) else PODS[arguments[1]]

    def run(_: Cluster, *arguments: str) -> str:
        if arguments[0] == "describe":
            return f"Name: {arguments[2]}"
        assert arguments[0] == "logs"
        assert arguments[1] != "late", "container main is waiting to start"
        return f"{arguments[1]} has printed this"

    monkeypatch.setattr(Cluster, "get", get)
    monkeypatch.setattr(Cluster, "kubectl", run)
    return Cluster("e2e")


def test_a_pod_that_is_late_is_reported_with_what_every_pod_has_printed(cluster: Cluster) -> None:
    with pytest.raises(AssertionError) as raised:
        cluster.wait_pod("client", timeout_s=0.01)
    said = str(raised.value)
    assert "client is not ('Succeeded', 'Failed') in 0.02 s" in said, "as long as it has waited"
    assert "Name: client" in said
    assert "output of server, Failed:\nserver has printed this" in said
    assert "output of client, Running:\nclient has printed this" in said
    assert "output of late, Pending:\ncontainer main is waiting to start" in said


def test_a_pod_in_the_phase_is_returned(cluster: Cluster) -> None:
    assert cluster.wait_pod("client", "Running") == PODS["client"]


def test_a_busy_machine_gets_more_time_unless_it_is_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(kubectl.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(kubectl.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))

    def waited(*bound: float, **more: bool) -> float:
        now[0] = 0.0
        with pytest.raises(TimeoutError):
            kubectl.until(lambda: False, *bound, every_s=1, **more)
        return now[0]

    assert waited(10, promised=True) == 11
    assert waited(10) == 21
    assert waited() == 2 * kubectl.SOON_S + 1
