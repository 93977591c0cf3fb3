"""Collectives on nodes without NVSwitches are bounded by the ring that the links allow."""

import itertools
import json

import pytest
from click.testing import CliRunner

from vgpu_sim.cli.main import main
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.collective.model import OPS
from vgpu_sim.perf.collective.predict import predict
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology import max_min, topology_named
from vgpu_sim.perf.topology.rings import exchange, ring
from vgpu_sim.perf.topology.routes import Routes

MIB = 1 << 20
# GPUs that alternate between the sockets: 0, 2, 4, 6 here, 1, 3, 5, 7 there.
MIXED = "custom:numa=2;nvlinks=0;gpus=" + ",".join(
    f"{0x10 + i:02x}.{i % 2}.{i}.{i}" for i in range(8)
)


def routes(name: str, board: str) -> Routes:
    return Routes(topology_named(name), BOARDS[board])


@pytest.mark.parametrize("name", ["pcie-2-socket", "flat", MIXED])
@pytest.mark.parametrize("gpus", [2, 3, 5, 8])
def test_a_ring_goes_at_the_pace_of_its_slowest_step_and_no_order_is_better(
    name: str, gpus: int
) -> None:
    node = routes(name, "a30")
    found = ring(node, gpus)
    assert sorted(found.order) == list(range(gpus))
    steps = list(itertools.pairwise((*found.order, found.order[0])))
    rates = max_min([node.path(f"gpu{a}", f"gpu{b}") for a, b in steps], node.capacity)
    assert found.rate == pytest.approx(min(rates))
    if gpus <= 5:
        for rest in itertools.permutations(range(1, gpus)):
            other = list(itertools.pairwise((0, *rest, 0)))
            theirs = [node.path(f"gpu{a}", f"gpu{b}") for a, b in other]
            assert min(max_min(theirs, node.capacity)) <= found.rate * (1 + 1e-9)


def test_the_best_ring_crosses_the_sockets_once_each_way() -> None:
    # Two crossings in each direction would leave 60 GB/s each, less than PCIe 5.0.
    order = ring(routes(MIXED, "h100-80gb"), 8).order
    crossings = sum(a % 2 != b % 2 for a, b in itertools.pairwise((*order, order[0])))
    assert crossings == 2


@pytest.mark.parametrize(("gpus", "links"), [(2, 18), (3, 18), (4, 18), (7, 18), (8, 14)])
def test_rings_of_all_orders_use_all_links_of_a_mesh(gpus: int, links: int) -> None:
    places = ",".join(f"{0x10 + i:02x}.0.{i}.{i}" for i in range(gpus))
    mesh = routes(f"custom:numa=1;nvlinks={links};gpus={places}", "h100-80gb")
    assert ring(mesh, gpus).rate == pytest.approx(25e3 * links)
    assert exchange(mesh, gpus).rate == pytest.approx(25e3 * links)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("size", [1024, MIB, 512 * MIB])
@pytest.mark.parametrize(
    ("name", "board", "gpus"),
    [
        ("pcie-2-socket", "a30", 8),
        ("pcie-2-socket", "h100-80gb", 4),
        ("hgx-4", "a100-80gb", 4),
        ("hgx-4", "h100-80gb", 2),
        ("dgx-h100", "a30", 8),  # a board without NVLink finds no NVSwitch in any chassis
        (MIXED, "h200", 6),
    ],
)
def test_no_collective_is_faster_than_its_links(
    op: str, size: int, name: str, board: str, gpus: int
) -> None:
    found = predict(board, op, "bf16", gpus, size, name)
    node = routes(name, board)
    bound = exchange(node, gpus) if op == "alltoall" else ring(node, gpus)
    sent = (2 if op == "all_reduce" else 1) * (gpus - 1) / gpus * size
    (cause,) = (cause for cause in found.stack if cause.startswith("bytes"))
    assert cause == "bytes, {} to {}".format(*bound.link)
    assert found.stack[cause] >= sent / bound.rate * (1 - 1e-12)
    assert found.us == pytest.approx(sum(found.stack.values()))
    assert found.choice["bound by"] == "{} to {}".format(*bound.link)
    assert found.choice["protocol"] != "NVLS"
    more = predict(board, op, "bf16", gpus, 2 * size, name)
    assert more.us >= found.us


def test_narrower_links_never_make_it_faster() -> None:
    times = [
        predict("h100-80gb", "all_reduce", "bf16", 4, 256 * MIB, name).us
        for name in ("dgx-h100", "hgx-4", "flat", "pcie-2-socket")
    ]
    assert times == sorted(times)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("board", "name"),
    [
        ("h100-80gb", "dgx-h100"),
        ("h200", "dgx-h100"),
        ("b200", "dgx-b200"),
        ("a100-80gb", "dgx-a100"),
    ],
)
@pytest.mark.parametrize(("gpus", "size"), [(2, 4096), (4, MIB), (8, 300 * MIB)])
def test_with_nvswitches_the_fitted_rates_are_unchanged(
    op: str, board: str, name: str, gpus: int, size: int
) -> None:
    alone, there = (
        predict(board, op, "bf16", gpus, size),
        predict(board, op, "bf16", gpus, size, name),
    )
    assert (there.us, there.interval, there.stack) == (alone.us, alone.interval, alone.stack)
    assert (there.choice, there.fitted) == (alone.choice, alone.fitted)


def test_more_gpus_than_places_are_refused() -> None:
    with pytest.raises(BadShape, match="hgx-4 has room for 4 GPUs, not 8"):
        predict("h100-80gb", "all_reduce", "bf16", 8, MIB, "hgx-4")


def test_the_command_names_the_link_and_the_ring() -> None:
    wanted = ["perf", "predict", "allreduce", "--board", "a30", "--gpus", "8", "--bytes", str(MIB)]
    done = CliRunner().invoke(main, [*wanted, "--topology", "pcie-2-socket"], prog_name="tessera")
    assert done.exit_code == 0, done.output
    row = json.loads(
        CliRunner().invoke(main, [*wanted, "--topology", "pcie-2-socket", "--json"]).output
    )
    bound = ring(routes("pcie-2-socket", "a30"), 8)
    assert row["choice"]["ring"] == "-".join(map(str, bound.order))
    assert f"bound by {row['choice']['bound by']}, ring {row['choice']['ring']}" in done.output
    assert "without NVSwitches" in done.output
