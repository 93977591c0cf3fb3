"""The kubelet's pod resources as the agent reads them, and pod UIDs from log directories."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import HolderPod
from device_plugin.podresources import client as podresources
from device_plugin.podresources.birth import birth_time_ns
from device_plugin.podresources.client import PodResources
from support.processes.kubelet import FakeKubelet

SLICE = "MIG-00000000-0000-4000-8000-000000000001"
OLD = "11111111-1111-4111-8111-111111111111"
NEW = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path) as running:
        yield running


def client(kubelet: FakeKubelet) -> PodResources:
    return PodResources(kubelet.socket, kubelet.pod_logs)


def test_the_younger_of_two_pods_of_one_name_counts_though_the_older_changed_last(
    kubelet: FakeKubelet,
) -> None:
    old = kubelet.log_directory("team", "train-0", OLD)
    time.sleep(0.02)
    kubelet.log_directory("team", "train-0", NEW)
    time.sleep(0.02)
    (old / "main").mkdir()  # containers of the old pod start and end, which changes ctime and mtime
    assert old.stat().st_ctime_ns > birth_time_ns(kubelet.pod_logs / f"team_train-0_{NEW}")
    kubelet.pods = [("team", "train-0", {"gpu.tessera.dev/mig-1g.10gb": [SLICE]})]
    listing = client(kubelet).list()
    assert listing.holders == {SLICE: (HolderPod("team", "train-0", NEW),)}


def test_other_ids_and_pods_without_devices_are_nobodys(kubelet: FakeKubelet) -> None:
    kubelet.log_directory("team", "train-0", NEW)
    (kubelet.pod_logs / "not-a-pod").mkdir()
    (kubelet.pod_logs / "team_train-0_no-uid").mkdir()
    kubelet.pods = [
        ("team", "train-0", {"gpu.tessera.dev/mig-1g.10gb": [SLICE]}),
        ("team", "real", {"gpu.tessera.dev/mig-1g.10gb": ["MIG-not-ours", "nvidia0"]}),
        ("team", "nic", {"example.org/nic": ["eth0"]}),
        ("kube-system", "agent-1", {}),
    ]
    listing = client(kubelet).list()
    assert listing.holders == {SLICE: (HolderPod("team", "train-0", NEW),)}
    assert listing.given == {SLICE: "gpu.tessera.dev/mig-1g.10gb"}
    assert "agent-1" in listing.pod_names


def test_a_slice_under_the_prefix_of_before_is_held_and_known_as_that(kubelet: FakeKubelet) -> None:
    kubelet.log_directory("team", "train-0", NEW)
    kubelet.pods = [("team", "train-0", {"before.example.org/mig-1g.10gb": [SLICE]})]
    listing = client(kubelet).list()
    assert listing.holders == {SLICE: (HolderPod("team", "train-0", NEW),)}
    assert listing.given == {SLICE: "before.example.org/mig-1g.10gb"}


def test_a_whole_gpu_is_held_by_its_own_uuid(kubelet: FakeKubelet) -> None:
    gpu = SLICE.replace("MIG-", "GPU-")
    kubelet.log_directory("team", "train-0", NEW)
    kubelet.pods = [("team", "train-0", {"nvidia.com/gpu": [gpu]})]
    listing = client(kubelet).list()
    assert listing.holders == {gpu: (HolderPod("team", "train-0", NEW),)}
    assert listing.given == {gpu: "nvidia.com/gpu"}


def test_a_static_pods_uid_has_no_dashes(kubelet: FakeKubelet) -> None:
    kubelet.log_directory("kube-system", "static-node1", NEW.replace("-", ""))
    kubelet.pods = [("kube-system", "static-node1", {"gpu.tessera.dev/mig-1g.10gb": [SLICE]})]
    (pod,) = client(kubelet).list().holders[SLICE]
    assert pod.uid == NEW.replace("-", "")


def test_a_pod_without_a_log_directory_is_listed_without_uid(kubelet: FakeKubelet) -> None:
    kubelet.pods = [("team", "train-0", {"gpu.tessera.dev/mig-1g.10gb": [SLICE]})]
    assert client(kubelet).list().holders == {SLICE: (HolderPod("team", "train-0", ""),)}


def test_a_kubelet_that_refuses_or_is_not_there_is_an_error(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    kubelet.refuse = True
    with pytest.raises(PodResourcesError, match="RESOURCE_EXHAUSTED"):
        client(kubelet).list()
    with pytest.raises(PodResourcesError, match="UNAVAILABLE"):
        PodResources(tmp_path / "absent.sock", kubelet.pod_logs).list()
    kubelet.refuse = False
    with pytest.raises(PodResourcesError, match="log directories"):
        PodResources(kubelet.socket, tmp_path / "nowhere").list()


def test_lists_keep_a_distance_also_after_one_that_failed(
    kubelet: FakeKubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet limits the rate of all its clients together."""
    pauses: list[float] = []
    monkeypatch.setattr(podresources, "time", SimpleNamespace(sleep=pauses.append))
    pods = PodResources(kubelet.socket, kubelet.pod_logs, clock=lambda: 100.0)
    kubelet.refuse = True
    with pytest.raises(PodResourcesError):
        pods.list()
    assert not pauses
    kubelet.refuse = False
    pods.list()
    assert pauses == [pytest.approx(0.05)]


def test_birth_time_is_between_before_and_after_and_does_not_change(tmp_path: Path) -> None:
    tick_ns = 20_000_000  # the kernel's clock for files is coarse
    before = time.time_ns()
    directory = tmp_path / "d"
    directory.mkdir()
    born = birth_time_ns(directory)
    assert before - tick_ns <= born <= time.time_ns() + tick_ns
    os.utime(directory, (1, 1))
    assert birth_time_ns(directory) == born
    with pytest.raises(FileNotFoundError):
        birth_time_ns(tmp_path / "nothing")


def test_pods_hold_the_slices_of_their_claims(kubelet: FakeKubelet) -> None:
    """Each pod that uses a claim is a holder; other drivers' claims are ignored."""
    claim = "33333333-3333-4333-8333-333333333333"
    kubelet.log_directory("team", "one", NEW)
    kubelet.pods = [("team", "one", {}), ("team", "two", {}), ("team", "stranger", {})]
    device = f"gpu.tessera.dev/claim={claim}-{SLICE}"
    kubelet.claims = {"one": [device], "two": [device], "stranger": [f"{device}x", "a/b=c"]}
    listing = client(kubelet).list()
    assert listing.holders == {
        f"{SLICE}::{claim}/team/one": (HolderPod("team", "one", NEW, claim=f"claim:{claim}"),),
        f"{SLICE}::{claim}/team/two": (HolderPod("team", "two", "", claim=f"claim:{claim}"),),
    }
    assert listing.given == {}
    other = claim.replace("3", "4")
    # both claims have a share of the slice
    kubelet.claims = {"one": [device, device.replace(claim, other)]}
    assert client(kubelet).list().holders.keys() == {
        f"{SLICE}::{uid}/team/one" for uid in (claim, other)
    }
    kubelet.driver = "gpu.example.org"
    assert client(kubelet).list().holders == {}
