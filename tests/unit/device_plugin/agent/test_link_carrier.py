"""The agent's side of the second layer: linkd gets the tables, and never delays the engine's."""

import logging
from typing import Any

import pytest

from device_plugin.agent.second_layer import DROPS_S, LayerStatus, LinkCarrier
from device_plugin.agent.tables import TableCarrier
from device_plugin.errors import LinkdError, LinkdUnreachable
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.tables import Tables
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.rdma.tables import RDMANodeTablesStatus, SecondLayer
from rdma import codec
from rdma.tables import Endpoint, Identity, NodeTables, Pod

OWNER = {"kind": "ClusterRole", "name": "r"}


def tables(generation: int) -> Tables:
    text = codec.encode(
        NodeTables(
            generation,
            "n",
            identities=(Identity(1),),
            endpoints=(Endpoint("10.0.0.1", 1, "ml/x"),),
            pods=(Pod("u-x", "ml/x", 1, ("10.0.0.1",)),),
        )
    )
    return Tables("u", generation, text, (OWNER,))


class Linkd:
    """Loads the tables that it is sent, unless a test makes it fail."""

    def __init__(self) -> None:
        self.generation: int | None = None
        self.able, self.why = True, ""
        self.handed = 0
        self.requested = 0
        self.links: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.requested += 1
        if self.error is not None:
            raise self.error
        if method == "drops":
            return {"totals": {}, "links": self.links}
        if method == "tables":
            self.handed += 1
            self.generation = codec.decode(params["document"]).generation
        return {"generation": self.generation, "able": self.able, "engine_only": self.why}


class Notices:
    def __init__(self) -> None:
        self.posted: list[tuple[HolderPod, Reason, str]] = []

    def post(self, pod: HolderPod, reason: Reason, message: str) -> bool:
        self.posted.append((pod, reason, message))
        return True


class Rig:
    def __init__(self) -> None:
        self.linkd, self.notices, self.seconds = Linkd(), Notices(), 0.0
        notices: Any = self.notices
        self.carrier = LinkCarrier(self.linkd, notices, lambda: self.seconds)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_tables_are_handed_over_once_and_again_to_a_new_linkd(rig: Rig) -> None:
    for generation, handed in ((5, 1), (5, 1), (6, 2)):
        assert rig.carrier.sync_tables(tables(generation)) == LayerStatus(SecondLayer.ENFORCING)
        assert rig.linkd.handed == handed
    rig.linkd.generation = None
    rig.carrier.sync_tables(tables(6))
    assert rig.linkd.handed == 3


def test_the_reason_for_a_missing_second_layer_is_logged_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.linkd.able, rig.linkd.why = False, "nft is missing in the image"
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            status = rig.carrier.sync_tables(tables(5))
    assert status == LayerStatus(SecondLayer.ENGINE_ONLY, "nft is missing in the image")
    assert rig.linkd.handed == 0
    said = [one for one in caplog.records if one.name == "device_plugin.agent.second_layer"]
    assert len(said) == 1


@pytest.mark.parametrize(
    "error", [LinkdUnreachable("linkd at x: gone"), LinkdError("failed", "no")]
)
def test_without_linkd_the_engine_has_its_tables(rig: Rig, error: Exception) -> None:
    statuses: list[RDMANodeTablesStatus] = []

    class Kube:
        def acknowledge(self, uid: str, status: RDMANodeTablesStatus) -> bool:
            statuses.append(status)
            return True

    class Hcad:
        generation: int | None = None

        def call(self, method: str, **params: Any) -> dict[str, Any]:
            if method == "tables":
                self.generation = codec.decode(params["document"]).generation
            return {"generation": self.generation, "denials": [], "path_mtu": None}

    kube: Any = Kube()
    notices: Any = rig.notices
    rig.linkd.error = error
    carrier = TableCarrier(kube, Hcad(), notices, links=rig.carrier)
    carrier.set_tables(tables(5))
    assert carrier.attempt()
    rig.linkd.error = None
    assert carrier.attempt()
    assert [(one.generation, one.second_layer) for one in statuses] == [
        (5, SecondLayer.ENGINE_ONLY),
        (5, SecondLayer.ENFORCING),
    ]
    assert statuses[0].second_layer_message == str(error)


def test_rules_are_sent_after_the_engine_has_switched_and_before_the_status(rig: Rig) -> None:
    class Hcad:
        generation: int | None = None

        def call(self, method: str, **_: Any) -> dict[str, Any]:
            if method == "tables":
                assert rig.linkd.generation is None
                self.generation = 5
            return {"generation": self.generation, "denials": []}

    class Kube:
        def acknowledge(self, uid: str, status: RDMANodeTablesStatus) -> bool:
            assert rig.linkd.generation == 5
            return status.second_layer is SecondLayer.ENFORCING

    kube: Any = Kube()
    notices: Any = rig.notices
    carrier = TableCarrier(kube, Hcad(), notices, links=rig.carrier)
    carrier.set_tables(tables(5))
    assert carrier.attempt()


def test_a_linkd_that_hangs_is_not_called_each_time(rig: Rig) -> None:
    rig.linkd.error = LinkdUnreachable("linkd at x: timed out")
    rig.linkd.error.__cause__ = TimeoutError()
    for _ in range(3):
        assert rig.carrier.sync_tables(tables(5)).state is SecondLayer.ENGINE_ONLY
    assert rig.linkd.requested == 1
    rig.seconds, rig.linkd.error = 60.0, None
    assert rig.carrier.sync_tables(tables(5)).state is SecondLayer.ENFORCING


def test_drops_are_events_on_the_pod_whose_link_it_is(rig: Rig) -> None:
    def link(count: int) -> dict[str, Any]:
        reported = {"link": "veth-a", "leaving": True, "dropped": {"spoofed": count}}
        return {"addresses": ["10.0.0.1"], **reported}

    rig.carrier.sync_tables(tables(5))
    rig.linkd.links = [link(2), {**link(9), "link": "veth-b", "addresses": ["10.0.0.9"]}]
    for _ in range(2):
        rig.seconds += DROPS_S
        rig.carrier.sync_tables(tables(5))
    ((pod, reason, message),) = rig.notices.posted
    assert pod == HolderPod("ml", "x", "u-x")
    assert reason is Reason.RDMA_DROPPED
    assert "UDP packets that this pod sent, from an address that is not the pod's" in message
    rig.linkd.links = [link(3)]
    rig.seconds += DROPS_S
    rig.carrier.sync_tables(tables(5))
    assert len(rig.notices.posted) == 2
