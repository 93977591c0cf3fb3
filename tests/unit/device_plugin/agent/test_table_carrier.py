"""The agent's side of RDMA policies: tables reach hcad; only its answers are acknowledged."""

from typing import Any

import pytest

from device_plugin.agent.tables import HEARTBEAT_S, TableCarrier, describe
from device_plugin.errors import ClusterError, HcadError, HcadUnreachable
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.tables import Tables
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.rdma.tables import HcadState, RDMANodeTablesStatus

OWNER = {"kind": "ClusterRole", "name": "r"}
DENIAL = {
    "function": "HCA-1",
    "source": "10.0.0.1",
    "source_pod": "ml/x",
    "destination": "10.0.0.2",
    "destination_pod": "",
    "verb": "Write",
    "policies": ["ml/deny-writes"],
    "reasons": ["no rule of ingress allows it"],
    "audited": False,
    "count": 3,
}


class Hcad:
    """Accepts the tables that it is sent, unless a test makes it refuse or unreachable."""

    def __init__(self) -> None:
        self.generation: int | None = None
        self.path_mtu: int | None = None
        self.handed: list[str] = []
        self.refusal: HcadError | None = None
        self.away = False
        self.denials: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        if self.away:
            raise HcadUnreachable("hcad at x: refused")
        if method == "tables":
            if self.refusal is not None:
                raise self.refusal
            self.handed.append(params["document"])
            self.generation = int(params["document"])
            return {"generation": self.generation, "revoked": 0, "narrowed": 0}
        if method == "denials":
            taken, self.denials = self.denials, []
            return {"denials": taken, "lost": 0}
        if method == "status":
            function = {"function": "HCA-1", "pod_uid": "u-1", "pod": "ml/x"}
            return {"functions": [function]}
        assert method == "policy-generation"
        return {"generation": self.generation, "path_mtu": self.path_mtu}


class Kube:
    """Stands in for the API server's client; records statuses."""

    def __init__(self) -> None:
        self.statuses: list[tuple[str, RDMANodeTablesStatus]] = []
        self.fails = False
        self.gone = False

    def acknowledge(self, uid: str, status: RDMANodeTablesStatus) -> bool:
        if self.fails:
            raise ClusterError("API server: 500")
        if not self.gone:
            self.statuses.append((uid, status))
        return not self.gone


class Notices:
    def __init__(self) -> None:
        self.posted: list[tuple[HolderPod, Reason, str]] = []

    def post(self, pod: HolderPod, reason: Reason, message: str) -> bool:
        self.posted.append((pod, reason, message))
        return True


class Rig:
    """A carrier between a fake hcad and a fake API server."""

    def __init__(self) -> None:
        self.hcad, self.kube, self.notices = Hcad(), Kube(), Notices()
        self.seconds = 0.0
        kube: Any = self.kube
        notices: Any = self.notices
        self.carrier = TableCarrier(kube, self.hcad, notices, lambda: self.seconds)

    def take(self, generation: int, uid: str = "u") -> None:
        self.carrier.set_tables(Tables(uid, generation, str(generation), (OWNER,)))

    @property
    def said(self) -> list[tuple[int, HcadState]]:
        return [(status.generation, status.hcad) for _, status in self.kube.statuses]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_tables_are_handed_over_once_and_acknowledged_once(rig: Rig) -> None:
    assert rig.carrier.attempt()  # no tables are wanted yet
    assert rig.kube.statuses == []
    rig.take(7)
    for _ in range(3):
        assert rig.carrier.attempt()
    assert rig.hcad.handed == ["7"]
    assert rig.said == [(7, HcadState.ENFORCING)]
    assert rig.kube.statuses[0][1].time.endswith("Z")
    rig.take(8)
    assert rig.carrier.attempt()
    assert rig.said == [(7, HcadState.ENFORCING), (8, HcadState.ENFORCING)]


def test_the_path_mtu_of_pods_is_reported_as_soon_as_it_is_known(rig: Rig) -> None:
    rig.take(7)
    rig.carrier.attempt()
    rig.hcad.path_mtu = 1024
    for _ in range(2):
        rig.carrier.attempt()
    assert [status.path_mtu for _, status in rig.kube.statuses] == [None, 1024]


def test_an_hcad_that_was_restarted_gets_them_again(rig: Rig) -> None:
    rig.take(7)
    rig.carrier.attempt()
    rig.hcad.generation = None
    rig.carrier.attempt()
    assert rig.hcad.handed == ["7", "7"]


def test_an_unreachable_hcad_is_reported_and_its_acknowledgement_withdrawn(rig: Rig) -> None:
    rig.take(7)
    rig.carrier.attempt()
    rig.hcad.away, rig.hcad.generation = True, None
    assert not rig.carrier.attempt()
    rig.hcad.away = False
    assert rig.carrier.attempt()
    expected = [(7, HcadState.ENFORCING), (0, HcadState.UNREACHABLE), (7, HcadState.ENFORCING)]
    assert rig.said == expected


def test_a_refusal_reports_the_generation_in_force_and_the_reason(rig: Rig) -> None:
    rig.take(7)
    rig.carrier.attempt()
    rig.hcad.refusal = HcadError("conflict", "generation 6 is older than the enforced generation 7")
    rig.take(6)
    assert not rig.carrier.attempt()
    uid, status = rig.kube.statuses[-1]
    assert (status.generation, status.hcad) == (7, HcadState.REFUSED)
    assert "the enforced generation 7" in status.message
    assert uid == "u"


def test_a_status_that_could_not_be_written_is_written_later(rig: Rig) -> None:
    rig.kube.fails = True
    rig.take(7)
    assert not rig.carrier.attempt()
    rig.kube.fails = False
    assert rig.carrier.attempt()
    assert rig.hcad.handed == ["7"]
    assert rig.said == [(7, HcadState.ENFORCING)]


def test_an_object_that_was_made_anew_is_acknowledged_again(rig: Rig) -> None:
    rig.take(7)
    rig.carrier.attempt()
    rig.take(7, uid="other")
    rig.carrier.attempt()
    assert [uid for uid, _ in rig.kube.statuses] == ["u", "other"]
    rig.carrier.set_tables(None)  # the object was deleted: its tables stay in force
    assert rig.carrier.attempt()
    assert rig.hcad.generation == 7


def test_a_denial_is_an_event_on_the_pod_that_holds_the_function_once_a_minute(rig: Rig) -> None:
    for second in (0.0, 1.0, 61.0):
        rig.seconds = second
        rig.hcad.denials = [dict(DENIAL), {**DENIAL, "function": "HCA-unknown"}]
        rig.carrier.attempt()
    said = "Write of ml/x (10.0.0.1) to 10.0.0.2 denied by ml/deny-writes: no rule of ingress allows it"
    assert rig.notices.posted == [(HolderPod("ml", "x", "u-1"), Reason.RDMA_DENIED, said)] * 2
    assert "would be denied" in describe({**DENIAL, "audited": True})


def test_a_heart_beats_only_while_hcad_answers(rig: Rig) -> None:
    assert not rig.carrier.is_alive
    rig.take(7)
    rig.carrier.attempt()
    assert rig.carrier.is_alive
    rig.hcad.away = True
    rig.seconds += HEARTBEAT_S
    rig.carrier.attempt()
    assert not rig.carrier.is_alive
