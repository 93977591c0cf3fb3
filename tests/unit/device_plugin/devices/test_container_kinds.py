"""Which pod holds a slice, for every kind of container, lifetime and way of requesting a slice.

The stand-in for the kubelet has its rules (pkg/kubelet/apis/podresources and cm/devicemanager): List
has no ordinary init containers, the checkpoint has all containers, and the entries of a pod that
has ended stay in the checkpoint until the next allocation.
"""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from device_plugin.agent.reservations import Reservations
from device_plugin.cdi import claims as cdi
from device_plugin.errors import ClusterError
from device_plugin.inventory.claims import KIND, ClaimRef, device_id, device_name
from device_plugin.inventory.model import slice_uuid_of
from device_plugin.kube.claims import Claim
from device_plugin.podresources.checkpoint import Checkpoint
from device_plugin.podresources.client import PodResources
from support.processes.kubelet import FakeKubelet

SLICE = "MIG-00000000-0000-4000-8000-000000000001"
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
POD, NEXT = (f"{digit * 8}-2222-4222-8222-222222222222" for digit in "12")
CLAIM = ClaimRef("team", "slice", "aaaaaaaa-3333-4333-8333-333333333333")

KINDS = ("init", "sidecar", "main", "ephemeral")
LIFETIMES = ("running", "restarted", "completed", "pod ended", "pod replaced", "slice reused")
WAYS = {"device plugin": SLICE, "shared": f"{SLICE}::3", "claim": ""}


@dataclass
class Cluster:
    """The API server's claims: the reservation, and whether it can be read."""

    pod_uids: frozenset[str] = frozenset()
    is_away: bool = False
    reads: int = 0

    def claim(self, namespace: str, name: str) -> Claim | None:
        self.reads += 1
        if self.is_away:
            raise ClusterError("the API server does not answer")
        assert (namespace, name) == ("team", "slice")
        return Claim(CLAIM, (), (), self.pod_uids)


class Node:
    def __init__(self, kubelet: FakeKubelet, root: Path) -> None:
        self.kubelet = kubelet
        self.cluster = Cluster()
        self.reservations = Reservations(root / "cdi", self.cluster, lambda: None)
        self.pods = PodResources(
            kubelet.socket,
            kubelet.pod_logs,
            checkpoint=Checkpoint(kubelet.checkpoint),
            reservations=self.reservations.list_prepared,
        )
        (root / "cdi").mkdir()
        self._claim_file = root / "cdi" / cdi.file_name(CLAIM.uid)

    def prepare_claim(self, *pod_uids: str) -> None:
        name = device_name(CLAIM.uid, SLICE)
        self._claim_file.write_text(
            f'{{"annotations": {{"{KIND}": "team/slice"}}, "devices": [{{"name": "{name}"}}]}}'
        )
        self.cluster.pod_uids = frozenset(pod_uids)
        self.reservations.refresh()

    def run(self, kind: str, way: str, name: str = "train", uid: str = POD) -> None:
        """Start a pod whose only container of ``kind`` has the slice."""
        self.kubelet.log_directory("team", name, uid)
        device = WAYS[way]
        listed = kind in ("sidecar", "main")
        self.kubelet.pods.append(("team", name, {RESOURCE: [device]} if listed and device else {}))
        if kind == "ephemeral":  # Kubernetes permits no resources for it
            return
        if device:
            self.kubelet.write_checkpoint([(uid, kind, RESOURCE, [device])])
        else:
            self.prepare_claim(uid)
            if listed:
                self.kubelet.claims[name] = [device_id(CLAIM.uid, SLICE)]

    def holders(self) -> set[str]:
        listing = self.pods.list()
        return {
            pod.uid
            for device, pods in listing.holders.items()
            if slice_uuid_of(device) == SLICE
            for pod in pods
        }


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with FakeKubelet(tmp_path) as kubelet:
        yield Node(kubelet, tmp_path)


@pytest.mark.parametrize(
    ("kind", "lifetime", "way"), list(itertools.product(KINDS, LIFETIMES, WAYS))
)
def test_a_pod_holds_its_slice_from_its_start_to_its_end(
    node: Node, kind: str, lifetime: str, way: str
) -> None:
    node.run(kind, way)
    expected = set() if kind == "ephemeral" else {POD}
    # The kubelet keeps devices of containers that restart or complete for their pod.
    if lifetime not in ("running", "restarted", "completed"):
        node.kubelet.pods.clear()
        node.kubelet.claims.clear()
        expected = set()
    if lifetime == "pod replaced":  # a pod of the same name, without a slice
        node.kubelet.log_directory("team", "train", NEXT)
        node.kubelet.pods.append(("team", "train", {}))
    if lifetime == "slice reused":
        node.run(kind, way, "next", NEXT)
        if WAYS[way] == "":
            node.reservations.read_again(SLICE)
            node.reservations.refresh()
        expected = set() if kind == "ephemeral" else {NEXT}
    assert node.holders() == expected


@pytest.mark.parametrize("way", WAYS)
def test_a_pod_without_the_slice_is_no_holder_of_it(node: Node, way: str) -> None:
    """A pod that mounts the slice's socket by itself is neither in the checkpoint nor reserved."""
    node.run("init", way)
    node.kubelet.log_directory("team", "stranger", NEXT)
    node.kubelet.pods.append(("team", "stranger", {}))
    assert node.holders() == {POD}


def test_the_pod_that_the_kubelet_lists_counts_more_than_the_checkpoint(node: Node) -> None:
    node.run("init", "device plugin")
    node.kubelet.log_directory("team", "next", NEXT)
    node.kubelet.pods.append(("team", "next", {RESOURCE: [SLICE]}))
    assert node.holders() == {NEXT}


def test_a_list_without_a_claims_reservation_is_incomplete(node: Node) -> None:
    node.run("init", "device plugin")
    assert node.pods.list().complete
    node.cluster.is_away = True
    with pytest.raises(ClusterError):
        node.prepare_claim(NEXT)
    assert not node.pods.list().complete
    node.cluster.is_away = False
    node.reservations.refresh()
    assert node.pods.list().complete
    reads = node.cluster.reads
    node.reservations.refresh()
    assert node.cluster.reads == reads


def test_only_claims_of_a_requested_slice_are_read_again(node: Node) -> None:
    node.run("init", "claim")
    node.kubelet.log_directory("team", "second", NEXT)
    node.kubelet.pods.append(("team", "second", {}))
    node.cluster.pod_uids = frozenset({POD, NEXT})
    node.reservations.read_again(SLICE.replace("1", "2"))
    node.reservations.refresh()
    assert node.holders() == {POD}
    node.reservations.read_again(SLICE)
    node.reservations.refresh()
    assert node.holders() == {POD, NEXT}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"Data": {"PodDeviceEntries": 1}}',
        '{"Data": {"PodDeviceEntries": [{"PodUID": 1}]}}',
        '{"Data": {"PodDeviceEntries": [{"PodUID": "a", "ContainerName": "b", "ResourceName": "c",'
        ' "DeviceIDs": {"0": [7]}}]}}',
        '{"Data": {"PodDeviceEntries": [{"PodUID": "a", "ContainerName": "b", "ResourceName": "c",'
        ' "DeviceIDs": ["x"]}]}}',
    ],
)
def test_a_checkpoint_of_another_form_is_reported_once(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)
    path.chmod(0o600)
    checkpoint = Checkpoint(path)
    assert checkpoint.allocations() == checkpoint.allocations() == ()
    assert len(caplog.records) == 1
    assert "devices of init containers are unknown" in caplog.text


@pytest.mark.parametrize("defect", ["writable by others", "link", "directory", "other owner"])
def test_a_checkpoint_that_others_could_have_written_is_refused(
    node: Node, tmp_path: Path, defect: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.run("init", "device plugin")
    path = node.kubelet.checkpoint
    if defect == "writable by others":
        path.chmod(0o620)
    elif defect == "other owner":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(path, 65534, 65534)
    else:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere") if defect == "link" else path.mkdir()
    assert node.holders() == set()
    assert "devices of init containers are unknown" in caplog.text


def test_a_kubelet_without_a_checkpoint_has_allocated_nothing(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    assert node.holders() == set()
    assert not caplog.records
