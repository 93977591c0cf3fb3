"""Transfers over the links of a node: rates, limits, times, and the predictions."""

import itertools
import json
import random
from collections import Counter

import pytest
from click.testing import CliRunner

from vgpu_sim.cli.main import main
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.stream.between import predict
from vgpu_sim.perf.topology import PRESETS, bottlenecks, max_min, topology_named
from vgpu_sim.perf.topology.routes import Routes
from vgpu_sim.perf.topology.transfers import SHARE, payload_rates, together

H100, A30 = BOARDS["h100-80gb"], BOARDS["a30"]
GIB = 1 << 30
# Two GPUs, an adapter and a drive below one switch; two GPUs on the other socket; CXL on both.
OWN = (
    "custom:numa=2;nvlinks=0;gpus=10.0.0.0,11.0.0.0,20.1.1.1,21.1.1.2;hcas=18.0.0.0"
    ";nvmes=19.0.0.0,29.1.1.1;cxls=0.0.128.8.2,1.1.512.16.3"
)


def routes(name: str, board: str = "a30") -> Routes:
    return Routes(topology_named(name), BOARDS[board])


def test_gpudirect_stays_below_the_switch_or_crosses_the_sockets() -> None:
    own = routes(OWN)
    near, far = together(own, [("gpu0", "wire0"), ("gpu2", "wire0")], GIB)
    assert near.way == "gpu0 > switch0 > hca0 > wire0"
    assert far.way == (
        "gpu2 > switch1 > bridge1 > numa1 > numa0 > bridge0 > switch0 > hca0 > wire0"
    )
    assert near.limit == far.limit == ("switch0", "hca0")
    (dgx,) = together(routes("dgx-h100", "h100-80gb"), [("gpu3", "wire3")], GIB)
    assert dgx.way == "gpu3 > switch3 > hca3 > wire3"
    assert dgx.limit == ("hca3", "wire3")  # 400 Gbit/s are less than sixteen lanes of PCIe 5.0
    assert 0.95 * 50e3 < dgx.rate < 50e3


def test_a_drive_reads_past_the_host_and_at_the_rate_of_its_four_lanes() -> None:
    one, other = together(routes(OWN), [("nvme0", "gpu0"), ("nvme0", "gpu1")], GIB)
    assert one.way == "nvme0 > switch0 > gpu0"
    assert one.limit == ("nvme0", "switch0")
    assert one.rate == other.rate == pytest.approx(SHARE * 4 * 16 * 128 / 130 / 8 * 1e3 / 2)


@pytest.mark.parametrize(
    ("end", "gb_per_s"), [("cxl0", 8 * 32 * 128 / 130 / 8), ("cxl1", 16 * 64 / 8)]
)
def test_an_expander_has_its_lanes_rate_and_not_more_than_the_gpu_takes(
    end: str, gb_per_s: float
) -> None:
    gpu = "gpu0" if end == "cxl0" else "gpu2"
    (found,) = together(routes(OWN, "h100-80gb"), [(end, gpu)], GIB)
    assert found.rate == pytest.approx(SHARE * 1e3 * min(gb_per_s, 64))
    with pytest.raises(BadShape, match=r"137\.4 GB do not fit into cxl0, which has 128 GB"):
        predict("gb200", OWN, [("gpu0", "cxl0")], 128 * GIB)


def test_a_server_that_has_a_name_has_drives_and_memory_expanders_too() -> None:
    own, far, memory = together(
        routes("pcie-2-socket"), [("nvme0", "gpu0"), ("nvme1", "gpu4"), ("cxl1", "gpu6")], GIB
    )
    assert own.way == "nvme0 > switch0 > gpu0"
    assert far.way == "nvme1 > switch1 > bridge1 > numa0 > numa1 > bridge2 > switch2 > gpu4"
    assert memory.way == "cxl1 > bridge5 > numa1 > bridge3 > switch3 > gpu6"
    with pytest.raises(BadShape, match="dgx-h100 has no nvme0"):
        routes("dgx-h100").path("nvme0", "gpu0")


def test_devices_share_a_root_ports_rate_and_a_bridge_has_the_sum() -> None:
    shared = together(routes("pcie-2-socket"), [("numa0", "gpu0"), ("numa0", "gpu1")], GIB)
    assert [one.rate for one in shared] == pytest.approx([SHARE * 32e3 / 2] * 2)
    assert {one.limit for one in shared} == {("numa0", "bridge0")}
    ends = [("numa0", f"gpu{i}") for i in range(8)]
    for one in together(routes("flat"), ends, GIB):
        assert one.rate == pytest.approx(SHARE * 32e3)


def test_shared_transfers_end_later_and_speed_up_when_others_end() -> None:
    pcie = routes("pcie-2-socket")
    (alone,) = together(pcie, [("gpu0", "numa0")], GIB)
    both = together(pcie, [("gpu0", "numa0"), ("gpu1", "numa0")], GIB)
    assert alone.us == pytest.approx(GIB / alone.rate)
    assert [one.us for one in both] == pytest.approx([2 * alone.us] * 2)
    # gpu4 and gpu5 share a root port; the other direction of gpu1's link is free.
    ends = [("gpu0", "numa0"), ("gpu4", "numa1"), ("gpu5", "numa1"), ("numa0", "gpu1")]
    times = [one.us for one in together(pcie, ends, GIB)]
    assert times == pytest.approx([alone.us, 2 * alone.us, 2 * alone.us, alone.us])


def every_end(of: Routes) -> list[str]:
    its = of.topology
    counts = {"gpu": len(its.gpus), "hca": len(its.hcas), "wire": len(its.hcas)}
    counts |= {"nvme": len(its.nvmes), "cxl": len(its.cxls), "numa": its.numa_nodes}
    return [f"{kind}{i}" for kind, count in counts.items() for i in range(count)]


@pytest.mark.parametrize("name", [*PRESETS, OWN])
@pytest.mark.parametrize("board", ["a30", "h100-80gb"])
def test_no_link_exceeds_its_capacity_and_a_new_transfer_never_helps_the_slowest(
    name: str, board: str
) -> None:
    chosen, node = random.Random(name), routes(name, board)
    capacity = payload_rates(node)
    pairs = list(itertools.permutations(every_end(node), 2))
    ends: list[tuple[str, str]] = []
    slowest = float("inf")
    for _ in range(12):
        ends.append(chosen.choice(pairs))
        found = together(node, ends, GIB)
        used: dict[tuple[str, str], float] = {}
        users = Counter(link for one in found for link in one.links)
        for one in found:
            assert (one.links[0][0], one.links[-1][1]) == (one.source, one.target)
            for link in one.links:
                used[link] = used.get(link, 0.0) + one.rate
        assert all(rate <= capacity[link] * (1 + 1e-6) for link, rate in used.items())
        for one in found:
            assert used[one.limit] >= capacity[one.limit] * (1 - 1e-6)
            assert one.us >= GIB / min(capacity[link] for link in one.links) * (1 - 1e-6)
        # Single other transfers may gain, if the new one slows a transfer with which they share a
        # link.
        assert min(one.rate for one in found) <= slowest * (1 + 1e-9)
        slowest = min(one.rate for one in found)
        loads = (count * GIB / capacity[link] for link, count in users.items())
        assert max(one.us for one in found) >= max(loads) * (1 - 1e-6)


def test_a_bottleneck_is_full_and_no_transfer_on_it_has_more() -> None:
    capacity = {"a": 10.0, "b": 4.0}
    paths = [["a"], ["a", "b"], ["b"], []]
    rates = max_min(paths, capacity)
    assert bottlenecks(paths, rates, capacity) == ["a", "b", "b", None]


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        ("gpu0", "gpu9", "has no gpu9"),
        ("gpu00", "gpu1", "has no gpu00"),
        ("wire0", "gpu0", "flat has no wire0"),
        ("nvme0", "gpu0", "flat has no nvme0"),
        ("numa1", "gpu0", "flat has no numa1"),
        ("cxl0", "gpu0", "flat has no cxl0"),
        ("switch0", "gpu0", "flat has no switch0"),
        ("gpu1", "gpu1", "not gpu1 to gpu1"),
    ],
)
def test_an_unknown_place_is_named(source: str, target: str, problem: str) -> None:
    with pytest.raises(BadShape, match=problem):
        predict("h100-80gb", "flat", [(source, target)], GIB)


def test_links_that_a_description_leaves_out_are_not_there() -> None:
    few = "custom:numa=1;nvlinks={};switched;gpus=10.0.0.0,11.0.0.1"
    rates = {
        count: together(routes(few.format(count), "h100-80gb"), [("gpu0", "gpu1")], GIB)[0].rate
        for count in (6, 18)
    }
    assert rates == {6: pytest.approx(SHARE * 150e3), 18: pytest.approx(SHARE * 450e3)}


def copy(*arguments: str):
    given = ["perf", "predict", "copy", "--board", "h100-80gb", "--bytes", str(GIB)]
    return CliRunner().invoke(main, [*given, *arguments], prog_name="tessera")


def test_the_command_prints_rate_limit_and_way_of_each() -> None:
    wanted = ["--from", "gpu0", "--to", "gpu3", "--topology", "hgx-4", "--with", "gpu1:gpu3"]
    done = copy(*wanted, "--with", "numa0:gpu0")
    assert done.exit_code == 0, done.output
    rows = json.loads(copy(*wanted, "--with", "numa0:gpu0", "--json").output)
    assert [one["way"] for one in rows["transfers"]] == [
        "gpu0 > gpu3",
        "gpu1 > gpu3",
        "numa0 > bridge0 > switch0 > gpu0",
    ]
    assert rows["us"] == pytest.approx(rows["transfers"][0]["us"] + 1.5)
    assert rows["us"] == pytest.approx(sum(rows["stack_us"].values()))
    for one in rows["transfers"]:
        assert f"{one['gb_per_s']:.2f} GB/s" in done.output
        assert f"limited by {one['limited_by']}" in done.output
    assert "bytes, gpu0 to gpu3" in done.output
    assert "(modelled)" in done.output
    both = CliRunner().invoke(
        main,
        ["perf", "compare", "--boards", "h100-80gb,b200", "copy", "--bytes", str(GIB), *wanted],
        prog_name="tessera",
    )
    assert both.exit_code == 0, both.output


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["--from", "gpu0"], "give --from and --to together"),
        (["--from", "gpu0", "--to", "gpu1", "--direction", "h2d"], "without --direction"),
        (["--with", "gpu0:gpu1"], "--with and --topology need --from and --to"),
        (["--topology", "flat"], "--with and --topology need --from and --to"),
        (["--from", "gpu0", "--to", "gpu1", "--with", "gpu0"], "'gpu0' is not of the form"),
        (["--from", "gpu0", "--to", "gpu8"], "error: flat has no gpu8"),
        (["--from", "gpu0", "--to", "gpu1", "--topology", "dgx"], "dgx-h100"),
    ],
)
def test_an_impossible_request_is_refused(wanted: list[str], said: str) -> None:
    done = copy(*wanted)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
