"""NVIDIA's device plugin, GPU Feature Discovery, mig-parted and go-nvml's examples, unmodified.

They use Tessera's NVML; their results must equal those of Tessera's agent and operator.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from device_plugin.agent.reporting import node_facts
from device_plugin.inventory import model
from device_plugin.inventory.resources import assign_resources, group_by_resource
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.render import features
from kubelet_conformance import process
from kubelet_conformance.kubelet import SimulatedKubelet
from kubelet_conformance.process import PluginProcess
from support.processes import nvml_views
from support.programs.go_programs import program
from support.programs.nvidia_programs import Programs

SERVED_S = 60.0
OF_TIME = "gfd.timestamp"
OF_THEIR_OPERATOR = {"gpu.present": "true"}
"""The labels that NVIDIA's GPU operator writes instead of GPU Feature Discovery."""
NOW = {"1g.10gb": 1, "2g.20gb": 1, "3g.40gb": 1}
pytestmark = [
    pytest.mark.skipif(
        bool(process.cannot_isolate()), reason=f"NOT RUN: {process.cannot_isolate()}"
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nj-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def rig(room: Path) -> Iterator[nvml_views.Rig]:
    (room / "rig").mkdir()  # a short path, because it contains sockets
    with nvml_views.rig(room / "rig") as made:
        yield made


@pytest.fixture(scope="module")
def programs(rig: nvml_views.Rig, room: Path) -> Programs:
    return Programs(rig, room)


def devices(rig: nvml_views.Rig) -> list[features.Device]:
    """Return the node's devices as the operator represents them."""
    return [
        features.Device(gpu.board, gpu.mig_enabled, profiles)
        for gpu in rig.inventory().gpus
        for profiles in [tuple(i.profile for i in gpu.instances if gpu.mig_enabled)]
    ]


def in_strategy(rig: nvml_views.Rig, programs: Programs, strategy: str) -> None:
    theirs = programs.features(strategy)
    del theirs[OF_TIME]
    software = features.Software(
        node_facts.driver_version(), node_facts.cuda_version(), node_facts.machine_product()
    )
    ours = features.labels(devices(rig), strategy, software)
    assert theirs | OF_THEIR_OPERATOR == ours


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_feature_discovery_writes_our_labels(
    rig: nvml_views.Rig, programs: Programs, strategy: str
) -> None:
    in_strategy(rig, programs, strategy)  # with "single": MIG-INVALID, because the GPUs differ


def test_examples_of_the_go_bindings(rig: nvml_views.Rig, programs: Programs) -> None:
    found = programs.run(str(program("gonvml", "devices"))).splitlines()
    uuids = [line.removeprefix("uuid=") for line in found if line.startswith("uuid=")]
    assert uuids == [gpu.uuid for gpu in rig.inventory().gpus]
    processes = programs.run(str(program("gonvml", "compute-processes")))
    assert processes.splitlines() == [f"Found 0 processes on device {i}" for i in range(2)]


@pytest.mark.parametrize("strategy", ["none", "mixed"])
def test_the_device_plugin_offers_the_devices_that_ours_does(
    rig: nvml_views.Rig, programs: Programs, tmp_path: Path, strategy: str
) -> None:
    plugin = str(program("kubernetes", "nvidia-device-plugin"))
    with rig.node.admin() as requested:
        slices = model.parse(requested.call("inventory")).slices()
    named = assign_resources("nvidia.com", Strategy(strategy), slices, ())
    ours = {
        name: {s.uuid for s in of} for name, of in group_by_resource(named.names, slices).items()
    }
    if strategy == "none":  # NVIDIA's plugin then ignores MIG mode, and also offers a divided GPU
        ours = {"nvidia.com/gpu": ours["nvidia.com/gpu"] | {rig.divided}}
    kubelet = SimulatedKubelet(tmp_path / "k")
    line = " ".join(("exec", plugin, f"--mig-strategy={strategy}"))
    started = PluginProcess(
        "exec " + " ".join(_quote(programs.line("/bin/sh", "-c", line))),
        kubelet.directory,
        tmp_path,
        programs.environment(),
    )

    def offers(kubelet: SimulatedKubelet) -> dict[str, set[str]]:
        return {name: set(one.healthy()) for name, one in kubelet.resources().items()}

    kubelet.start()
    started.start()
    try:
        assert kubelet.wait(lambda kubelet: offers(kubelet) == ours, SERVED_S), started.log
    finally:
        started.terminate()
        kubelet.stop()


def _quote(words: list[str]) -> list[str]:
    return ["'" + word.replace("'", "'\\''") + "'" for word in words]


def test_mig_parted_reads_checks_and_makes_layouts(
    rig: nvml_views.Rig, programs: Programs, tmp_path: Path
) -> None:
    def configuration(wanted: dict[str, int]) -> list[dict[str, object]]:
        return [
            {"devices": [0], "mig-enabled": True, "mig-devices": wanted},
            {"devices": [1], "mig-enabled": False, "mig-devices": {}},
        ]

    exported = yaml.safe_load(programs.run_mig_parted("export"))
    assert exported["mig-configs"]["current"] == configuration(NOW)
    file = tmp_path / "config.yaml"
    configurations = {
        "now": configuration(NOW),
        "two": configuration({"1g.10gb": 2}),
        "too-much": configuration({"3g.40gb": 3}),
        "all-1g": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
    }
    file.write_text(yaml.safe_dump({"version": "v1", "mig-configs": configurations}))
    programs.run_mig_parted("assert", "-f", str(file), "-c", "now")
    programs.run_mig_parted("assert", "-f", str(file), "-c", "two", status=1)
    programs.run_mig_parted("apply", "-f", str(file), "-c", "too-much", status=1)
    programs.run_mig_parted("apply", "-f", str(file), "-c", "two")
    assert [i.profile for i in rig.gpu(rig.divided).instances] == ["1g.10gb"] * 2
    programs.run_mig_parted("assert", "-f", str(file), "-c", "two")
    in_strategy(rig, programs, "mixed")
    programs.run_mig_parted("apply", "-f", str(file), "-c", "all-1g")  # the whole GPU's mode, too
    assert [[i.profile for i in gpu.instances] for gpu in rig.inventory().gpus] == [
        ["1g.10gb"] * 7
    ] * 2
    in_strategy(rig, programs, "single")
