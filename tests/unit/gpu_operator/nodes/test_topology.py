"""A custom topology: which ones are rejected with which message, and that it survives a round
trip.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, GPUPoolStatus
from gpu_operator.api.v1alpha1.resource import Broken, parse
from gpu_operator.api.v1alpha1.topology import CustomTopology, Topology
from gpu_operator.controllers.common.conditions import report_broken
from gpu_operator.controllers.pools import pools
from gpu_operator.kube.actions import Apply, Manager
from support.worlds.driven_operator import CONFIG
from support.worlds.gpu_world import NOW, node, pool, world
from vgpu_sim.perf.topology import PRESETS, Expander, Level, Place, topology_named


def at(bus: str, numa: int = 0, bridge: int = 0, switch: int = 0) -> dict[str, Any]:
    return {"bus": bus, "numaNode": numa, "hostBridge": bridge, "switch": switch}


def cxl(numa: int = 0, bridge: int = 0, **others: Any) -> dict[str, Any]:
    return {"numaNode": numa, "hostBridge": bridge, "gigabytes": 128, **others}


def custom(*gpus: dict[str, Any], **others: Any) -> CustomTopology:
    return CustomTopology.model_validate({"gpus": gpus or (at("10"),), **others})


def test_readers_get_the_topology_that_was_written() -> None:
    written = custom(
        *(at("1b", 0, 0, 0), at("43", 1, 7, 255)),
        numaNodes=3,
        hcas=[at("18", 0, 0, 0)],
        nvlinks=18,
        nvswitch=True,
    )
    read = topology_named(written.text, 2)
    assert read.gpus == (Place(0x1B, 0, 0, 0), Place(0x43, 1, 7, 255))
    assert read.hcas == (Place(0x18, 0, 0, 0),)
    assert (read.numa_nodes, read.switched, read.name) == (3, True, written.text)
    assert {read.links_of(name) for name in ("Ampere", "Hopper", "Blackwell")} == {18}


def test_the_smallest_and_the_largest_topology_can_be_parsed() -> None:
    assert topology_named(custom().text, 1).links_of("Hopper") == 0
    gpus = [at(f"{0x10 + i:02x}", 15, 255, 255) for i in range(8)]
    hcas = [at(f"{0x20 + i:02x}", 15, 255, 255) for i in range(8)]
    nvmes = [at(f"{0x30 + i:02x}", 15, 255, 255) for i in range(8)]
    cxls = [cxl(15, 255, gigabytes=65536, lanes=16, generation=3)] * 4
    others = {"hcas": hcas, "nvmes": nvmes, "cxls": cxls, "nvlinks": 18, "nvswitch": True}
    full = custom(*gpus, numaNodes=16, **others)
    assert len(full.text) <= 1024  # the maximum in a GPU's spec
    read = topology_named(full.text, 8)
    assert (len(read.hcas), len(read.nvmes), len(read.cxls)) == (8, 8, 4)
    assert read.cxls[0] == Expander(15, 255, 65536, 16, 3)


@pytest.mark.parametrize(
    "wrong", [{"lanes": 12}, {"lanes": 4}, {"generation": 1}, {"gigabytes": 0}]
)
def test_expanders_match_the_cxl_specification(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        custom(at("10"), cxls=[cxl(**wrong)])


@pytest.mark.parametrize(("gpus", "nvlinks"), [(2, 12), (3, 18), (6, 10), (8, 14)])
def test_nvlinks_connect_two_to_eight_gpus(gpus: int, nvlinks: int) -> None:
    mesh = custom(*(at(f"1{i}", 0, i, i) for i in range(gpus)), nvlinks=nvlinks)
    assert topology_named(mesh.text, gpus).links_between("Hopper") == nvlinks // (gpus - 1)


@pytest.mark.parametrize(
    ("gpus", "others", "problem"),
    [
        ((at("1b"), at("1b")), {}, "gpus[0] and gpus[1] have the same bus 1b"),
        ((at("1b"),), {"hcas": [at("1b")]}, "gpus[0] and hcas[0] have the same bus 1b"),
        ((at("1b", 1),), {}, "gpus[0]: there is no NUMA node 1: numaNodes is 1, so the last is 0"),
        (
            (at("10"), at("11", 1, 0, 1)),
            {"numaNodes": 2},
            "gpus[0] and gpus[1] are on host bridge 0, but on different NUMA nodes",
        ),
        (
            (at("10"), at("11", 0, 1, 0)),
            {},
            "gpus[0] and gpus[1] are on PCIe switch 0, but on different host bridges",
        ),
        ((at("00"),), {}, "gpus[0]: bus 00 is the host bridge's"),
        (
            (at("05"),),
            {"nvlinks": 12, "nvswitch": True},
            "gpus[0]: bus 05 is the NVSwitches'",
        ),
        ((at("10"),), {"nvswitch": True}, "nvswitch requires nvlinks"),
        ((at("10"),), {"nvlinks": 6}, "nvlinks without nvswitch require 2 to 8 GPUs, not 1"),
        (
            tuple(at(f"1{i}") for i in range(4)),
            {"nvlinks": 4},
            "nvlinks: 4 cannot be divided evenly among 3 other GPUs",
        ),
        ((at("1b"),), {"nvmes": [at("1b")]}, "gpus[0] and nvmes[0] have the same bus 1b"),
        (
            (at("10"),),
            {"cxls": [cxl(1, 1)]},
            "cxls[0]: there is no NUMA node 1: numaNodes is 1, so the last is 0",
        ),
        (
            (at("10", 0, 3),),
            {"numaNodes": 2, "cxls": [cxl(0, 3), cxl(1, 3)]},
            "gpus[0] and cxls[1] are on host bridge 3, but on different NUMA nodes",
        ),
        (
            (at("10"),),
            {"numaNodes": 2, "cxls": [cxl(0, 3), cxl(1, 3)]},
            "cxls[0] and cxls[1] are on host bridge 3, but on different NUMA nodes",
        ),
    ],
)
def test_an_impossible_topology_is_refused_with_the_position(
    gpus: tuple[dict[str, Any], ...], others: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        custom(*gpus, **others)
    assert problem in str(refused.value)


def test_a_pool_with_an_impossible_topology_reports_the_position() -> None:
    spec = {"nodeSelector": {"a": "b"}, "board": "a30"}
    spec["customTopology"] = {"gpus": [at("10"), at("10")]}
    document = {"kind": "GPUPool", "metadata": {"name": "p"}, "spec": spec}
    found = parse(document, GPUPoolSpec, GPUPoolStatus)
    assert isinstance(found, Broken)
    assert "spec.customTopology: " in found.problem
    assert "gpus[0] and gpus[1] have the same bus 10" in found.problem
    (write, *_) = report_broken(found, NOW)
    (accepted,) = (c for c in write.document["status"]["conditions"] if c["type"] == "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")


@pytest.mark.parametrize("bus", ["5", "1B", "0x1b", "100", "1g"])
def test_a_bus_is_two_hexadecimal_digits(bus: str) -> None:
    with pytest.raises(ValidationError, match="bus"):
        custom(at(bus))


def test_the_example_connects_each_pair_of_gpus_with_six_nvlinks() -> None:
    text = (Path(__file__).parents[4] / "examples" / "pool-own-topology.yaml").read_text()
    spec = GPUPoolSpec.model_validate(yaml.safe_load(text)["spec"])
    there = topology_named(spec.facts.topology, spec.count)
    assert there.links_between("Hopper") == 6
    assert there.level(there.gpus[0], there.gpus[1]) is Level.PIX
    assert there.level(there.gpus[1], there.gpus[2]) is Level.SYS


def test_topology_names_match_the_presets() -> None:
    assert {one.value for one in Topology} == PRESETS.keys()


def test_gpus_have_the_pool_s_topology() -> None:
    own = custom(at("1b"))
    for spec, places in (({"custom_topology": own}, own.text), ({"topology": "hgx-4"}, "hgx-4")):
        wanted = pool(**spec)
        assert isinstance(wanted.spec, GPUPoolSpec)
        seen = world(node(), wanted)
        actions = pools.reconcile(seen, "p", CONFIG.node, "tessera-system", NOW).actions
        (made,) = (
            a.document
            for a in actions
            if isinstance(a, Apply)
            and a.manager is Manager.CHILDREN
            and a.document["kind"] == "GPU"
        )
        assert made["spec"]["topology"] == places
