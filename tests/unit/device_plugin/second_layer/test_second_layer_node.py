"""Which link belongs to which pod, and when rules are loaded: without a kernel."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from device_plugin.errors import SecondLayerError
from device_plugin.second_layer.daemon import Absent, answer
from device_plugin.second_layer.kernel import Link, Route, State
from device_plugin.second_layer.node import PATIENCE_S, Node
from device_plugin.second_layer.pod_links import Bound, find
from rdma import codec
from rdma.forward_guard import Overlays
from rdma.second_layer import TOTALS, Interface, link_counter
from rdma.tables import Endpoint, Identity, Membership, NodeTables, Pod

DEFAULT = (Membership(0x7FFF, full=True),)
UPLINK = Link(2, "eth0", "veth", 1500)  # of a node that is itself a container
A, B = Link(7, "veth-a", "veth", 1500), Link(8, "veth-b", "veth", 9000)
ROUTES = (
    Route("", 0, 2, has_gateway=True),
    Route("172.18.0.0", 16, 2, has_gateway=False),
    Route("10.244.2.2", 32, 7, has_gateway=False),
    Route("10.244.2.3", 32, 8, has_gateway=False),
    Route("fe80::", 64, 7, has_gateway=False),
)
STATE = State((UPLINK, A, B, Link(1, "lo", "", 65536)), ROUTES)
TABLES = NodeTables(
    generation=5,
    node="n",
    identities=(Identity(1, partitions=DEFAULT),),
    endpoints=(Endpoint("10.244.2.2", 1, "ml/x"),),
    pods=(Pod("u-x", "ml/x", 1, ("10.244.2.2",)),),
)
X = Interface("veth-a", ("10.244.2.2",), 1, 1024, 7)
WITHOUT = Interface("veth-b", ("10.244.2.3",), None, 4096, 8)


def test_links_are_identified_by_the_routes_of_single_addresses() -> None:
    found = find(TABLES, STATE, {})
    assert found.interfaces == (X, WITHOUT)  # a pod without an HCA has no identity
    assert found.others == ("eth0",)
    assert not found.missing


def test_pods_on_a_bridge_cannot_be_identified() -> None:
    bridge = Link(3, "cni0", "bridge", 1500)
    routes = (Route("10.244.2.0", 24, 3, has_gateway=False),)
    found = find(TABLES, State((bridge, A), routes), {})
    assert found.interfaces == ()
    assert found.missing == {"ml/x": "10.244.2.2 is not routed to a veth of its own"}


@pytest.mark.parametrize(
    "route",
    [Route("10.244.2.2", 32, 7, has_gateway=True), Route("10.244.2.2", 31, 7, has_gateway=False)],
)
def test_a_veth_that_leads_to_more_is_no_pod_s(route: Route) -> None:
    found = find(TABLES, State((A,), (*ROUTES[2:3], route)), {})
    assert found.interfaces == ()
    assert found.others == ("veth-a",)


def test_an_address_that_comes_to_another_link_is_not_the_pod_s() -> None:
    """The pod has ended and another pod has its address, but the tables are still old."""
    bound: Bound = {}
    assert find(TABLES, STATE, bound).interfaces[0].identity == 1
    reused = State((replace(A, index=9),), (replace(ROUTES[2], link=9),))
    found = find(TABLES, reused, bound)
    assert found.interfaces == (replace(X, identity=None, index=9),)
    assert "another veth" in found.missing["ml/x"]
    find(replace(TABLES, pods=()), reused, bound)
    assert not bound
    anew = replace(TABLES, pods=(Pod("u-y", "ml/y", 1, ("10.244.2.2",)),))
    assert find(anew, reused, bound).interfaces[0].identity == 1


class Kernel:
    """Links and rules in memory, as a test sets them."""

    def __init__(self) -> None:
        self.now = STATE
        self.loaded: list[tuple[NodeTables, tuple[Interface, ...], tuple[str, ...]]] = []
        self.overlays = Overlays()
        self.counted: dict[str, int] = dict.fromkeys(TOTALS, 0)
        self.refuses = ""
        self.removed = 0

    def state(self) -> State:
        return self.now

    def apply(
        self,
        tables: NodeTables,
        interfaces: tuple[Interface, ...],
        others: tuple[str, ...],
        overlays: Overlays,
    ) -> None:
        if self.refuses:
            raise SecondLayerError(self.refuses)
        self.loaded.append((tables, interfaces, others))
        self.overlays = overlays
        self.counted |= dict.fromkeys(TOTALS, 0)

    def drops(self) -> Mapping[str, int]:
        return self.counted

    def remove(self) -> None:
        self.removed += 1


class Rig:
    def __init__(self) -> None:
        self.kernel, self.seconds = Kernel(), 0.0
        self.node = Node(self.kernel, self.kernel, lambda: self.seconds)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_rules_are_loaded_when_tables_or_links_change_and_else_not(rig: Rig) -> None:
    rig.node.reload_if_changed()
    assert rig.kernel.loaded == []  # no tables were sent yet
    rig.node.set_tables(TABLES)
    rig.node.reload_if_changed()
    assert rig.kernel.loaded == [(TABLES, (X, WITHOUT), ("eth0",))]
    rig.kernel.now = replace(STATE, routes=ROUTES[:-2])
    rig.node.reload_if_changed()
    assert [interfaces for _, interfaces, _ in rig.kernel.loaded[1:]] == [(X,)]
    assert rig.node.state() == {"generation": 5, "links": 1, "able": True, "engine_only": ""}


def test_rules_are_loaded_again_when_an_overlay_device_comes(rig: Rig) -> None:
    rig.node.set_tables(TABLES)
    overlay = Link(9, "flannel.1", "vxlan", 1450, ports=(8472,))
    rig.kernel.now = replace(STATE, links=(*STATE.links, overlay), fou_ports=(7777,))
    rig.node.reload_if_changed()
    assert len(rig.kernel.loaded) == 2
    assert rig.kernel.overlays == Overlays(("flannel.1",), (7777, 8472))


def test_without_pods_with_an_hca_all_rules_are_removed(rig: Rig) -> None:
    rig.node.set_tables(TABLES)
    rig.node.set_tables(NodeTables(6, "n"))
    assert rig.kernel.removed == 1
    assert rig.node.generation == 6


def test_refused_rules_are_reported_and_retried(rig: Rig) -> None:
    rig.kernel.refuses = "nft -f -: No such file"
    with pytest.raises(SecondLayerError, match="No such file"):
        rig.node.set_tables(TABLES)
    assert rig.node.state()["engine_only"] == "nft -f -: No such file"
    assert rig.node.generation is None
    rig.kernel.refuses = ""
    rig.node.reload_if_changed()
    assert rig.node.state()["engine_only"] == ""
    assert rig.node.generation == 5


def test_a_missing_link_is_reported_after_a_while(rig: Rig) -> None:
    rig.kernel.now = replace(STATE, routes=ROUTES[:2])
    rig.node.set_tables(TABLES)
    assert rig.node.state()["engine_only"] == ""
    rig.seconds = PATIENCE_S
    assert "ml/x: 10.244.2.2 is not routed" in rig.node.state()["engine_only"]
    rig.kernel.now = STATE
    rig.node.reload_if_changed()
    assert rig.node.state()["engine_only"] == ""


def test_drops_are_reported_by_link_and_direction(rig: Rig) -> None:
    rig.node.set_tables(TABLES)
    rig.kernel.counted |= {"spoofed": 3, link_counter(7, True, "spoofed"): 3}
    reported = rig.node.drops()
    assert reported["totals"]["spoofed"] == 3
    assert reported["links"] == [
        {
            "addresses": ["10.244.2.2"],
            "link": "veth-a",
            "leaving": True,
            "dropped": {"spoofed": 3},
        }
    ]


def test_rules_that_another_hand_has_removed_come_back(rig: Rig) -> None:
    rig.node.set_tables(TABLES)
    rig.kernel.counted = {}
    rig.node.drops()
    assert len(rig.kernel.loaded) == 2


def ask(node: Node | Absent, method: str, **params: str) -> dict[str, object]:
    line = json.dumps({"id": 3, "method": method, "params": params})
    return answer(node, line.encode())


def test_requests_are_answered(rig: Rig) -> None:
    loaded = ask(rig.node, "tables", document=codec.encode(TABLES))
    assert loaded["result"] == {"generation": 5, "links": 2, "able": True, "engine_only": ""}
    assert ask(rig.node, "state")["result"] == loaded["result"]
    rig.kernel.refuses = "no"
    failed = ask(rig.node, "tables", document=codec.encode(replace(TABLES, generation=6)))
    assert failed == {"id": 3, "error": {"code": "failed", "message": "no"}}


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b"\xff", b'{"id": 1, "method": "tables", "params": {"document": "x"}}'],
)
def test_an_invalid_request_is_refused(rig: Rig, line: bytes) -> None:
    assert "error" in answer(rig.node, line)
    assert rig.kernel.loaded == []


def test_a_node_without_a_second_layer_reports_the_reason() -> None:
    absent = Absent("nft is missing in the image")
    said = ask(absent, "state")["result"]
    expected = {"generation": None, "links": 0, "able": False}
    assert said == {**expected, "engine_only": "nft is missing in the image"}
    assert "error" in ask(absent, "tables", document=codec.encode(TABLES))
