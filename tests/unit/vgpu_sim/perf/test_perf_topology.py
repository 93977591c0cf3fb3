"""Topologies: tools' output, routes of transfers, and max-min fair rates."""

from xml.etree import ElementTree

import pytest

from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology import PRESETS, finish_us, max_min, topology_named
from vgpu_sim.perf.topology.routes import Routes
from vgpu_sim.perf.topology.texts import connection, matrix, nccl_xml

H100, A30 = BOARDS["h100-80gb"], BOARDS["a30"]


def test_a_dgx_h100_is_printed_as_its_listings_show_it() -> None:
    lines = list(matrix(topology_named("dgx-h100"), H100, range(8), 8))
    assert lines[0].split("\t")[1:9] == [f"GPU{i}" for i in range(8)]
    first = lines[1].split("\t")
    assert first[:9] == ["GPU0", " X ", *["NV18"] * 7]
    assert first[9:] == ["PXB", *["NODE"] * 3, *["SYS"] * 4, "0"]
    assert lines[8].split("\t")[-1] == "1"


@pytest.mark.parametrize(
    ("name", "board", "one", "other", "cell"),
    [
        ("dgx-a100", "a100-80gb", 0, 7, "NV12"),
        ("hgx-4", "a100-80gb", 0, 3, "NV4"),
        ("hgx-4", "h100-80gb", 0, 3, "NV6"),
        ("pcie-2-socket", "a30", 0, 1, "PIX"),
        ("pcie-2-socket", "a30", 0, 2, "NODE"),
        ("pcie-2-socket", "a30", 0, 4, "SYS"),
        ("dgx-h100", "a30", 0, 1, "NODE"),  # a board without NVLink has none in any chassis
        ("flat", "h100-80gb", 0, 1, "PHB"),
    ],
)
def test_how_two_gpus_reach_each_other(
    name: str, board: str, one: int, other: int, cell: str
) -> None:
    topology = topology_named(name)
    places = topology.gpus[one], topology.gpus[other]
    assert connection(topology, BOARDS[board], *places) == cell
    assert connection(topology, BOARDS[board], *places[::-1]) == cell


def test_no_two_devices_have_one_bus() -> None:
    for topology in PRESETS.values():
        devices = (*topology.gpus, *topology.hcas, *topology.nvmes)
        buses = [place.bus for place in devices]
        assert len(set(buses)) == len(buses), topology.name
        assert all(one.numa < topology.numa_nodes for one in (*devices, *topology.cxls))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(BadShape, match="did you mean dgx-h100"):
        topology_named("dgx-h10")
    with pytest.raises(BadShape, match="hgx-4 has room for 4 GPUs, not 5"):
        topology_named("hgx-4", 5)
    with pytest.raises(BadShape, match="has no gpu9"):
        Routes(topology_named("dgx-h100"), H100).path("numa0", "gpu9")


# Two pairs of GPUs, each below a switch, and an HCA below the first pair's switch.
PAIRS = "custom:numa=2;nvlinks=0;gpus=10.0.0.0,11.0.0.0,20.1.1.1,21.1.1.1;hcas=18.0.0.0"


def test_a_description_is_printed_and_routed_as_it_says() -> None:
    pairs = topology_named(PAIRS, 4)
    rows = [line.split("\t") for line in matrix(pairs, A30, range(4), 1)]
    assert rows[1] == ["GPU0", " X ", "PIX", "SYS", "SYS", "PIX", "0"]
    assert rows[3] == ["GPU2", "SYS", "SYS", " X ", "PIX", "SYS", "1"]
    routes = Routes(pairs, A30)
    assert routes.path("gpu0", "gpu1") == [("gpu0", "switch0"), ("switch0", "gpu1")]
    assert ("numa0", "numa1") in routes.path("gpu0", "gpu2")
    # Both pairs at once share the link between the NUMA nodes, so each gets half of it.
    paths = [routes.path("gpu0", "gpu2"), routes.path("gpu1", "gpu3")]
    between = routes.capacity["numa0", "numa1"]
    shares = max_min(paths, routes.capacity)
    pcie = A30.pcie_gb_per_s.value * 1e3
    assert shares == pytest.approx([min(between, pcie) / 2] * 2)
    linked = topology_named("custom:numa=1;nvlinks=12;switched;gpus=10.0.0.0,11.0.0.1")
    assert connection(linked, BOARDS["a100-80gb"], *linked.gpus) == "NV12"
    assert connection(linked, A30, *linked.gpus) == "PHB"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("custom:", "is not a valid description of a topology"),
        ("custom:numa=1;nvlinks=0;gpus=", "is not a valid description of a topology"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0", "is not a valid description of a topology"),
        ("custom:numa=1;nvlinks=0;gpus=1G.0.0.0", "is not a valid description of a topology"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0\n", "is not a valid description of a topology"),
        (
            "custom:numa=1;nvlinks=0;gpus=" + ",".join(["10.0.0.0"] * 200),
            "is not a valid description of a topology",
        ),
        ("custom:numa=0;nvlinks=0;gpus=10.0.0.0", "1 to 16 NUMA nodes"),
        ("custom:numa=17;nvlinks=0;gpus=10.0.0.0", "1 to 16 NUMA nodes"),
        ("custom:numa=1;nvlinks=0;gpus=10.1.0.0", "outside its 1 NUMA nodes"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.256.0", "outside its"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0,10.0.0.0", "a PCI bus of its own"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0;hcas=10.0.0.0", "a PCI bus of its own"),
        ("custom:numa=1;nvlinks=0;gpus=00.0.0.0", "a PCI bus of its own"),
        ("custom:numa=1;nvlinks=1;switched;gpus=05.0.0.0", "a PCI bus of its own"),
        ("custom:numa=1;nvlinks=19;switched;gpus=10.0.0.0", "at most 18 NVLinks"),
        ("custom:numa=1;nvlinks=6;gpus=10.0.0.0", "join 2 to 8 GPUs, not 1"),
        ("custom:numa=1;nvlinks=5;gpus=10.0.0.0,11.0.0.0,12.0.0.0", "5 cannot be divided among 2"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0;nvmes=10.0.0.0", "a PCI bus of its own"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0;cxls=1.0.64.8.2", "cxl0 is outside"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0;cxls=0.0.64.4.2", "64 GB, 4 lanes of CXL 2"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0;cxls=0.0.64.8.1", "CXL 1"),
        ("custom:numa=1;nvlinks=0;gpus=10.0.0.0;cxls=0.0.0.8.2", "0 GB"),
        (
            "custom:numa=1;nvlinks=0;gpus=10.0.0.0;cxls=" + ",".join(["0.0.1.8.2"] * 5),
            "at most 4 CXL",
        ),
        (
            "custom:numa=1;nvlinks=0;gpus=" + ",".join(f"1{i}.0.0.0" for i in range(9)),
            "at most 8 GPUs",
        ),
    ],
)
def test_a_description_that_no_reader_can_use_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadShape, match=problem):
        topology_named(text)


def test_a_description_has_room_for_the_gpus_that_it_names() -> None:
    with pytest.raises(BadShape, match="the custom topology has room for 4 GPUs, not 5"):
        topology_named(PAIRS, 5)


def test_transfers_take_the_links_between_their_ends() -> None:
    dgx, plain = (
        Routes(topology_named("dgx-h100"), H100),
        Routes(topology_named("pcie-2-socket"), A30),
    )
    assert dgx.path("gpu0", "gpu5") == [("gpu0", "nvswitch"), ("nvswitch", "gpu5")]
    assert plain.path("gpu0", "gpu1") == [("gpu0", "switch0"), ("switch0", "gpu1")]
    assert ("numa0", "numa1") in plain.path("gpu0", "gpu7")
    # GPUDirect RDMA stays below the switch that the GPU shares with its HCA.
    assert dgx.path("wire0", "gpu0") == [
        ("wire0", "hca0"),
        ("hca0", "switch0"),
        ("switch0", "gpu0"),
    ]
    for routes in (dgx, plain):
        for target in ("gpu1", "gpu6"):
            path = routes.path("numa0", target)
            assert all(link in routes.capacity for link in path)
            assert path[0][0] == "numa0"
            assert path[-1][1] == target


def test_rates_are_max_min_fair() -> None:
    # The example of Bertsekas and Gallager: transfers on the narrow link get little, others the
    # rest.
    capacity = {"a": 10.0, "b": 4.0}
    assert max_min([["a"], ["a", "b"], ["b"]], capacity) == pytest.approx([8, 2, 2])
    assert max_min([["a"], []], capacity) == [10.0, float("inf")]
    with pytest.raises(BadShape, match="unknown link"):
        max_min([["c"]], capacity)


def test_no_transfer_gains_except_from_one_that_has_no_more() -> None:
    routes = Routes(topology_named("pcie-2-socket"), A30)
    ends = [
        ("gpu0", "gpu4"),
        ("gpu1", "gpu5"),
        ("numa0", "gpu2"),
        ("numa0", "gpu6"),
        ("gpu3", "numa1"),
    ]
    paths = [routes.path(*one) for one in ends]
    rates = max_min(paths, routes.capacity)
    for i, path in enumerate(paths):
        full = []
        for link in path:
            users = [j for j, other in enumerate(paths) if link in other]
            used = sum(rates[j] for j in users)
            assert used <= routes.capacity[link] * (1 + 1e-9)
            full.append(
                used >= routes.capacity[link] * (1 - 1e-9)
                and rates[i] >= max(rates[j] for j in users) * (1 - 1e-9)
            )
        assert any(full), "a transfer has no bottleneck"


def test_a_finished_transfer_leaves_its_link_to_the_others() -> None:
    ends = finish_us([["a"], ["a"]], [100.0, 300.0], {"a": 10.0})
    assert ends == pytest.approx([20.0, 40.0])
    assert finish_us([["a"], []], [0.0, 5.0], {"a": 1.0}) == [0.0, 0.0]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_xml_agrees_with_the_matrix(name: str) -> None:
    topology = topology_named(name)
    root = ElementTree.fromstring(nccl_xml(topology, H100, range(len(topology.gpus)), 1))
    found = {
        pci.get("busid"): (cpu.get("numaid"), switch.get("busid"), pci.find("gpu"))
        for cpu in root.findall("cpu")
        for switch in cpu.findall("pci")
        for pci in switch.findall("pci")
        if pci.find("gpu") is not None
    }
    assert set(found) == {place.bus_id for place in topology.gpus}
    for one in topology.gpus:
        assert found[one.bus_id][0] == str(one.numa)
        for other in topology.gpus:
            same = found[one.bus_id][1] == found[other.bus_id][1]
            assert same == (one.switch == other.switch)
        links = sum(int(link.get("count", "0")) for link in found[one.bus_id][2])
        assert links == topology.links_of("Hopper")
