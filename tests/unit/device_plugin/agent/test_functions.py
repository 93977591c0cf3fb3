"""HCA functions in the node agent: offered, bound to pods, released."""

import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from device_plugin import config
from device_plugin.agent import loop
from device_plugin.agent.desired_state import Desired
from device_plugin.agent.functions import FunctionBinder
from device_plugin.agent.holding import View
from device_plugin.agent.loop import Agent
from device_plugin.backends.hcad import FunctionState
from device_plugin.cdi import hca
from device_plugin.config import Hcas
from device_plugin.dp.functions import FunctionOffer
from device_plugin.dp.offer import HEALTHY, UNHEALTHY
from device_plugin.errors import ClusterError, HcadUnreachable, SettingsError
from device_plugin.inventory.functions import ID, functions_of
from device_plugin.inventory.model import HolderPod, Inventory
from device_plugin.kube.pod_facts import PodFacts, read
from gpu_operator.api.v1alpha1.base import Reason

FUNCTIONS = functions_of("node-1", Hcas(2, 2), Path("/run/tessera/hca"))
A, B, C, D = FUNCTIONS
UID, OTHER_UID = "1" * 32, "2" * 32
POD, OTHER = HolderPod("ns", "one", UID), HolderPod("ns", "two", OTHER_UID)
REQUIRED = {"NODE_NAME": "n", "POD_NAME": "p"}


def facts(uid: str = UID, *addresses: str, host: bool = False) -> PodFacts:
    return PodFacts(uid, "node-1", host, addresses or ("10.0.0.1",))


class World:
    """hcad, the kubelet's holders, the API server and a clock, as the binder sees them."""

    def __init__(self) -> None:
        self.now = 100.0
        self.there: dict[str, FunctionState] = {}
        self.calls: list[tuple[str, ...]] = []
        self.view = View({}, complete=True)
        self.pods: dict[str, PodFacts | None] = {}
        self.requested = 0
        self.refreshed: View | None = None
        self.notices: list[tuple[HolderPod, Reason, str]] = []
        self.gone = False
        me: Any = self
        self.binder = FunctionBinder(FUNCTIONS, 100, me, me, me, me, clock=lambda: self.now)

    def functions(self) -> dict[str, FunctionState]:
        if self.gone:
            raise HcadUnreachable("away")
        return dict(self.there)

    def add(self, name: str, rate: int) -> None:
        self.there[name] = FunctionState(name, "", (), "")
        self.calls.append(("add", name))

    def bind(self, name: str, pod: HolderPod, addresses: tuple[str, ...], refused: str) -> None:
        self.there[name] = FunctionState(name, pod.uid, tuple(addresses), refused)
        self.calls.append(("bind", name, pod.uid))

    def release(self, name: str) -> None:
        self.there[name] = FunctionState(name, "", (), "")
        self.calls.append(("release", name))

    def last_view(self) -> View:
        return self.view

    def age_s(self) -> float:
        return 10.0

    def refresh(self) -> View:
        assert self.refreshed is not None
        return self.refreshed

    def pod(self, namespace: str, name: str) -> PodFacts | None:
        self.requested += 1
        return self.pods.get(name)

    def post(self, pod: HolderPod, reason: Reason, message: str) -> bool:
        self.notices.append((pod, reason, message))
        return True

    def holds(self, *held: tuple[Any, HolderPod], complete: bool = True) -> None:
        self.view = View({one.id: (pod,) for one, pod in held}, complete)


@pytest.fixture
def world() -> World:
    made = World()
    for one in FUNCTIONS:
        made.add(one.id, 100)
    made.calls.clear()
    return made


def test_functions_follow_from_the_node_s_name() -> None:
    assert functions_of("node-1", Hcas(2, 2), Path("/run/tessera/hca")) == FUNCTIONS
    assert [one.hca for one in FUNCTIONS] == [0, 0, 1, 1]
    assert len({one.id for one in (*FUNCTIONS, *functions_of("node-2", Hcas(2, 2), Path()))}) == 8
    assert all(ID.fullmatch(one.id) for one in FUNCTIONS)
    assert functions_of("node-1", Hcas(), Path()) == ()


def test_hcad_gets_the_functions_that_it_lacks(world: World) -> None:
    del world.there[B.id]
    assert world.binder.reconcile()
    assert world.calls == [("add", B.id)]


def test_a_function_is_bound_once_kubelet_and_api_server_have_spoken(world: World) -> None:
    world.holds((A, POD))
    world.pods["one"] = PodFacts(UID, "node-1", False, ())
    assert not world.binder.reconcile(), "it has no address yet"
    assert world.calls == []
    world.pods["one"] = facts(UID, "10.0.0.1", "fd00::1")
    assert not world.binder.reconcile()
    assert world.requested == 1, "not so soon again"
    world.now += 0.3
    assert world.binder.reconcile()
    assert world.there[A.id].addresses == ("10.0.0.1", "fd00::1")
    world.now += 10
    assert world.binder.reconcile()
    assert world.calls == [("bind", A.id, UID)]
    assert world.requested == 2, "known facts about a pod are not queried again so soon"


def test_a_pod_whose_sandbox_was_made_again_is_bound_by_its_new_address(world: World) -> None:
    world.there[A.id] = FunctionState(A.id, UID, ("10.0.0.1",), "")
    world.holds((A, POD))
    world.pods["one"] = facts()
    assert world.binder.reconcile()
    world.pods["one"] = facts(UID, "10.0.0.9")
    world.now += 31
    assert world.binder.reconcile()
    assert world.there[A.id].addresses == ("10.0.0.9",)
    world.pods["one"] = None
    world.now += 31
    assert world.binder.reconcile()
    assert world.there[A.id].addresses == ("10.0.0.9",), "silence takes nothing away"


def test_an_address_that_another_pod_has_by_now_is_not_taken_back(world: World) -> None:
    world.there[A.id] = FunctionState(A.id, UID, ("10.0.0.1",), "")
    world.holds((A, POD))
    world.pods["one"] = facts()
    assert world.binder.reconcile()
    world.release(A.id)  # hcad does so for the pod that has the address now
    world.calls.clear()
    world.pods["one"] = PodFacts(UID, "node-1", False, ())
    world.now += 1
    assert not world.binder.reconcile()
    assert world.calls == []


def test_a_pod_without_an_address_is_queried_ever_less_often(world: World) -> None:
    world.holds((A, POD))
    for _ in range(400):
        world.now += 0.25
        assert not world.binder.reconcile()
    assert world.requested < 100


def test_another_pod_of_that_name_is_not_the_holder(world: World) -> None:
    world.holds((A, POD))
    world.pods["one"] = facts(OTHER_UID)
    assert not world.binder.reconcile()
    assert world.calls == []


def test_a_pod_whose_folder_is_not_there_yet_is_listed_again(world: World) -> None:
    world.view = View({A.id: (HolderPod("ns", "one", ""),)}, complete=True)
    world.refreshed = View({A.id: (POD,)}, complete=True)
    world.pods["one"] = facts()
    assert world.binder.reconcile()
    assert world.calls == [("bind", A.id, UID)]


def test_a_pod_made_again_under_its_name_is_bound_as_soon_as_its_folder_is_there(
    world: World,
) -> None:
    """Until its folder exists the kubelet lists it with its predecessor's UID, which is bound."""
    again = HolderPod(POD.namespace, POD.name, OTHER_UID)
    world.there[A.id] = FunctionState(A.id, UID, ("10.0.0.1",), "")
    world.holds((A, POD))
    world.pods["one"] = facts()
    assert world.binder.reconcile()
    assert world.binder._pause_s(settled=True) == 5.0
    world.binder.expect_allocation()
    world.pods["one"] = facts(OTHER_UID)
    world.refreshed = world.view
    assert world.binder.reconcile(), "the folder is not there yet"
    assert world.binder._pause_s(settled=True) < 2.0, "a program waits two seconds for its function"
    world.refreshed = View({A.id: (again,)}, complete=True)
    assert world.binder.reconcile()
    assert world.calls == [("release", A.id), ("bind", A.id, OTHER_UID)]
    world.now += 20
    world.view, world.refreshed = world.refreshed, None
    assert world.binder.reconcile(), "the queries end"


def test_a_pod_that_is_gone_loses_its_function_and_one_of_unknown_uid_does_not(
    world: World,
) -> None:
    world.there[A.id] = FunctionState(A.id, UID, ("10.0.0.1",), "")
    world.view = View({A.id: (HolderPod("ns", "one", ""),)}, complete=True)
    world.refreshed = world.view
    assert not world.binder.reconcile()
    world.holds(complete=False)
    assert world.binder.reconcile()
    assert world.calls == [], "an agent that has just started does not know"
    world.holds()
    assert world.binder.reconcile()
    assert world.calls == [("release", A.id)]


def test_the_next_holder_s_predecessor_goes_first(world: World) -> None:
    world.there[A.id] = FunctionState(A.id, UID, ("10.0.0.1",), "")
    world.holds((A, OTHER))
    world.pods["two"] = PodFacts(OTHER_UID, "node-1", False, ())
    assert not world.binder.reconcile()
    assert world.calls == [("release", A.id)], "also while the next has no address"
    world.pods["two"] = facts(OTHER_UID)
    world.now += 1
    assert world.binder.reconcile()
    assert world.calls[1:] == [("bind", A.id, OTHER_UID)]


def test_a_new_agent_changes_no_existing_binding(world: World) -> None:
    world.there[A.id] = FunctionState(A.id, UID, ("10.0.0.1",), "")
    world.holds((A, POD), complete=False)
    world.pods["one"] = facts()
    assert world.binder.reconcile()
    assert world.calls == []


def test_a_pod_on_the_node_s_network_is_refused_and_notified_once(world: World) -> None:
    world.holds((A, POD), (B, POD))
    world.pods["one"] = facts(UID, "172.18.0.2", host=True)
    assert world.binder.reconcile()
    assert world.there[A.id].addresses == ()
    assert "hostNetwork" in world.there[A.id].refused
    assert "hostNetwork" in world.there[B.id].refused
    ((pod, reason, message),) = world.notices
    assert (pod, reason) == (POD, Reason.REFUSED)
    assert "hostNetwork" in message


def test_failures_are_tried_again_and_hcad_may_not_stay_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("device_plugin.agent.functions.time.sleep", lambda _: None)
    world.holds((A, POD))

    def refuse(namespace: str, name: str) -> PodFacts:
        raise ClusterError("no", 503)

    monkeypatch.setattr(world, "pod", refuse)
    assert not world.binder.attempt()
    world.gone = True
    assert not world.binder.attempt()
    assert world.binder.healthy
    world.now += 21
    assert not world.binder.healthy


def test_a_node_without_functions_keeps_no_empty_resource() -> None:
    """``stays_registered`` is for resources that may get devices; a node's functions do not come back."""
    for functions in (FUNCTIONS, ()):
        assert not FunctionOffer(functions, "/lib/x").stays_registered
    assert FunctionOffer((), "/lib/x").devices() == []


def test_one_function_a_container_by_cdi_or_by_mounts() -> None:
    offer = FunctionOffer(FUNCTIONS, "/lib/x")
    assert offer.allocatable_ids() == {one.id for one in FUNCTIONS}
    assert offer.problem([]) == ""
    assert offer.problem([A.id]) == ""
    assert offer.problem([A.id, B.id]) == "a container can have one HCA function, and not 2"
    by_cdi = offer.container([B.id], use_cdi=True)
    assert [one.name for one in by_cdi.cdi_devices] == [f"rdma.tessera.dev/function={B.id}"]
    assert not by_cdi.envs
    assert not by_cdi.mounts
    by_mounts = offer.container([B.id], use_cdi=False)
    mounts = {one.container_path: one.host_path for one in by_mounts.mounts}
    assert mounts["/run/tessera/function"] == f"/run/tessera/hca/functions/{B.id}"
    assert mounts["/sys/class"] == f"/run/tessera/hca/classes/{B.id}"
    for library in ("libibverbs.so.1", "librdmacm.so.1"):
        assert mounts[f"/usr/lib/x86_64-linux-gnu/{library}"] == f"/lib/x/{library}"
    assert all(one.read_only for one in by_mounts.mounts)
    assert not by_mounts.envs


def test_cdi_devices_equal_the_mounts() -> None:
    document = hca.render("/lib/x", FUNCTIONS)
    assert document["kind"] == "rdma.tessera.dev/function"
    libraries = document["containerEdits"]["mounts"]
    assert all("noexec" not in mount["options"] for mount in libraries)
    by_mounts = FunctionOffer(FUNCTIONS, "/lib/x").container([A.id], use_cdi=False)
    (first,) = [one for one in document["devices"] if one["name"] == A.id]
    said = [*first["containerEdits"]["mounts"], *libraries]
    assert {(m["hostPath"], m["containerPath"]) for m in said} == {
        (m.host_path, m.container_path) for m in by_mounts.mounts
    }
    assert all({"ro", "nosuid", "nodev"} <= set(mount["options"]) for mount in said)


def test_health_and_numa_nodes_that_the_machine_has() -> None:
    offer = FunctionOffer(FUNCTIONS, "/lib/x", numa_nodes=2)
    devices = {one.ID: one for one in offer.devices()}
    assert [n.ID for n in devices[A.id].topology.nodes] == [0]
    assert [n.ID for n in devices[D.id].topology.nodes] == [1]
    assert {one.health for one in devices.values()} == {HEALTHY}
    assert {one.health for one in offer.as_unhealthy("gone").devices()} == {UNHEALTHY}
    alone = FunctionOffer(FUNCTIONS, "/lib/x").devices()
    assert not any(one.HasField("topology") for one in alone)
    assert pickle.loads(pickle.dumps(offer)) == offer


def test_a_function_is_preferred_below_the_root_of_the_slice_given_away_last() -> None:
    offer = FunctionOffer(FUNCTIONS, "/lib/x", roots={"MIG-0": 0, "MIG-1": 1, "MIG-3": 3})
    every = [one.id for one in FUNCTIONS]
    assert offer.prefer(every, [], 1, ["MIG-1", "MIG-0"]) == [C.id]
    assert offer.prefer(every, [], 1, ["MIG-0"]) == [A.id]
    assert offer.prefer(every, [], 1, ["MIG-3"]) == [C.id], "roots beyond the HCAs share them"
    assert offer.prefer([B.id, C.id, D.id], [], 1, []) == [C.id], "the HCA with most free"
    assert offer.prefer(every, [D.id], 2, ["MIG-0"]) == [D.id, A.id]
    assert offer.prefer(["HCA-gone"], [], 1, []) == []


def test_settings_set_the_number_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"TESSERA_HCAS": "2", "TESSERA_FUNCTIONS_PER_HCA": "8", "TESSERA_HCA_GBPS": "400"}
    assert config.from_environment(REQUIRED | env).hcas == Hcas(2, 8, 400)
    assert config.from_environment(REQUIRED).hcas == Hcas()
    for name, wrong in (("TESSERA_HCAS", "9"), ("TESSERA_FUNCTIONS_PER_HCA", "many")):
        with pytest.raises(SettingsError, match=name):
            config.from_environment(REQUIRED | env | {name: wrong})


def test_a_pod_is_read_with_all_its_addresses() -> None:
    document: dict[str, Any] = {
        "metadata": {"uid": UID},
        "spec": {"nodeName": "node-1"},
        "status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
    }
    assert read(document) == facts(UID, "10.0.0.1", "fd00::1")
    document["status"]["phase"] = "Succeeded"
    assert read(document).addresses == (), "another pod may have it by now"
    document["spec"]["hostNetwork"] = True
    del document["status"]
    assert read(document) == PodFacts(UID, "node-1", True, ())


def test_hcad_s_answers_become_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from device_plugin.backends.hcad import Hcad
    from device_plugin.errors import HcadError

    hcad = Hcad(Path("/nowhere/admin.sock"))
    said = SimpleNamespace(functions=[])
    monkeypatch.setattr(hcad, "call", lambda *_, **__: vars(said))
    assert hcad.functions() == {}
    said.functions = [{"function": "HCA-1"}]
    with pytest.raises(HcadError, match="another version"):
        hcad.functions()
    monkeypatch.undo()
    with pytest.raises(HcadUnreachable, match="hcad at /nowhere"):
        hcad.release("HCA-1")


@pytest.mark.parametrize("objects", [(), ("a GPU",)])
@pytest.mark.parametrize("gpud_is_there", [True, False])
def test_an_agent_that_leaves_with_its_pool_leaves_no_cdi_file(
    tmp_path: Path, objects: tuple[str, ...], gpud_is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starting pods need the files until the end; a later pass must not write them again."""
    monkeypatch.setattr(loop, "desired_from_objects", lambda *_: Desired())
    kube: Any = SimpleNamespace(gpus=lambda: objects)
    unused: Any = MagicMock(functions=FUNCTIONS, seen_at=lambda: 0.0)
    unused.given.return_value = {}
    settings = config.Settings("node-1", "agent", cdi_dir=tmp_path)
    agent = Agent(
        *(settings, unused, unused, kube, unused, tmp_path, threading.Event(), unused, unused)
    )
    monkeypatch.setattr(agent._reporter, "report_leaving", lambda _: None)
    inventory = Inventory("1", "/lib", 1, 0, True, "", (), ())

    def make_a_pass() -> None:
        if gpud_is_there:
            agent._offering.offer(inventory, {})

    agent._offering.offer(inventory, {})
    assert (tmp_path / hca.FILE_NAME).exists()
    agent._report_leaving()
    make_a_pass()
    assert (tmp_path / hca.FILE_NAME).exists(), "its functions are still on the kubelet's list"
    agent.stop_writing_cdi()
    assert (tmp_path / hca.FILE_NAME).exists() == bool(objects)
    make_a_pass()
    assert (tmp_path / hca.FILE_NAME).exists() == bool(objects)
