"""The tests of each room: ``make test ROOM=console`` runs those of the folder ``console``.

A room is a folder of the product, and its name is the folder's. Every folder at the top of the
repository is one, and every package directly below ``vgpu_sim``; a few are further below. A room
has the tests in its row, and those of the rooms below its folder. Tests on a cluster are in no row.

``tests/mutation/rooms.py`` divides the sources in another way: by the library that is built from
them, with tests in the order in which they are likely to detect a defect.

Standard library only: make checks the name before it builds the environment.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath

TESTS: Mapping[str, tuple[str, ...]] = {
    "benchmarks": ("tests/unit/benchmarks",),
    "boards": (
        "tests/golden/mig",
        "tests/unit/boards",
        "tests/unit/mig/test_mig_geometry.py",
        "tests/unit/vgpu_sim/gpud_node/test_gpud_attributes.py",
        "tests/unit/vgpu_sim/perf/test_perf_boards.py",
        "tests/unit/vgpu_sim/perf/test_perf_figures.py",
    ),
    "charts": ("tests/unit/chart",),
    "console": (
        "tests/integration/console",
        "tests/unit/chart/test_console_chart.py",
        "tests/unit/console",
    ),
    "deploy": ("tests/unit/deploy",),
    "device_plugin": ("tests/integration/agent", "tests/unit/device_plugin"),
    "diagnosis": ("tests/unit/diagnosis",),
    "docs": ("tests/unit/repository",),
    "drawing": ("tests/unit/drawing",),
    "examples": (
        "tests/unit/deploy/test_example_manifests.py",
        "tests/unit/deploy/test_examples_ptx.py",
        "tests/unit/repository/test_dra_demos.py",
        "tests/unit/repository/test_dra_examples.py",
        "tests/unit/vgpu_sim/compiler/test_compiler_examples.py",
    ),
    "facts": ("tests/unit/facts",),
    "hca": ("tests/abi/verbs", "tests/integration/rdma", "tests/unit/hca"),
    "hooks": ("tests/unit/repository/test_commit_hook.py",),
    "kubelet_conformance": (
        "tests/integration/agent/test_kubelet_conformance.py",
        "tests/unit/kubelet_conformance",
    ),
    "mig": ("tests/golden/mig", "tests/unit/mig"),
    "operator": ("tests/unit/chart", "tests/unit/gpu_operator"),
    "plugins": ("tests/unit/plugins/start",),
    "plugins/torch": (
        "tests/integration/packages/test_torch_extensions.py",
        "tests/integration/packages/test_torch_rules.py",
        "tests/integration/run/test_torch_captures.py",
        "tests/integration/run/test_torch_chosen.py",
        "tests/integration/run/test_torch_compared.py",
        "tests/integration/run/test_torch_random.py",
        "tests/integration/run/test_torch_ranks.py",
        "tests/integration/run/test_torch_run.py",
        "tests/unit/plugins/torch",
    ),
    "pytest_tessera": ("tests/integration/packages",),
    "rdma": (
        "tests/integration/rdma/test_second_layer.py",
        "tests/integration/rdma/test_second_layer_encapsulation.py",
        "tests/integration/rdma/test_second_layer_sources.py",
        "tests/unit/device_plugin/second_layer",
        "tests/unit/gpu_operator/rdma",
        "tests/unit/rdma",
        "tests/unit/vgpu_sim/cli/test_cli_rdma.py",
    ),
    "tests": (
        "tests/unit/repository",
        "tests/unit/test_fuzzing.py",
        "tests/unit/test_local_names.py",
        "tests/unit/test_mutation.py",
        "tests/unit/test_rooms.py",
        "tests/unit/test_scalar_ptx.py",
    ),
    "vgpu_sim": (),
    "vgpu_sim/cli": (
        "tests/integration/run",
        "tests/unit/mig/test_mig_cli.py",
        "tests/unit/vgpu_sim/cli",
        "tests/unit/vgpu_sim/ptx/test_ptx_cli.py",
    ),
    "vgpu_sim/clients": ("tests/unit/vgpu_sim/clients",),
    "vgpu_sim/clients/libcuda": ("tests/abi/driver",),
    "vgpu_sim/clients/libcudart": ("tests/abi/cudart",),
    "vgpu_sim/clients/libnvml": (
        "tests/abi/nvml",
        "tests/golden/nvidia_smi",
        "tests/integration/nvidia",
    ),
    "vgpu_sim/compiler": (
        "tests/conformance",
        "tests/unit/vgpu_sim/compiler",
        "tests/unit/vgpu_sim/ptx",
    ),
    "vgpu_sim/exec": (),
    "vgpu_sim/exec/interp": ("tests/conformance", "tests/unit/vgpu_sim/interp"),
    "vgpu_sim/exec/jit": (
        "tests/conformance",
        "tests/unit/vgpu_sim/jit_analysis",
        "tests/unit/vgpu_sim/jit_code",
    ),
    "vgpu_sim/gpud": (
        "tests/integration/gpud",
        "tests/unit/vgpu_sim/gpud_daemon",
        "tests/unit/vgpu_sim/gpud_node",
    ),
    "vgpu_sim/hal": ("tests/unit/vgpu_sim/isa",),
    "vgpu_sim/isa": ("tests/unit/vgpu_sim/isa",),
    "vgpu_sim/kernel_names": ("tests/unit/vgpu_sim/system/test_kernel_names.py",),
    "vgpu_sim/native": (
        "tests/unit/vgpu_sim/clients/test_native_generate.py",
        "tests/unit/vgpu_sim/native",
    ),
    "vgpu_sim/perf": (
        "tests/unit/vgpu_sim/cli/test_cli_perf.py",
        "tests/unit/vgpu_sim/perf",
        "tests/unit/vgpu_sim/perf_validation",
    ),
    "vgpu_sim/sdk": ("tests/integration/run/test_run_sdk.py", "tests/unit/vgpu_sim/sdk"),
    "vgpu_sim/system": ("tests/unit/vgpu_sim/system",),
    "vgpu_sim/worker": (
        "tests/abi/driver",
        "tests/unit/vgpu_sim/worker_kernels",
        "tests/unit/vgpu_sim/worker_process",
    ),
}
"""Folders and files of tests, by the room's folder."""

ROOMS: Mapping[str, str] = {PurePath(folder).name: folder for folder in sorted(TESTS)}
"""The folder of each room, by the name that ``ROOM`` has."""


def tests_of(names: Sequence[str]) -> list[str]:
    """Return the folders and files with the tests of rooms, none of them below another one.

    Raises:
        KeyError: no room has one of the names.
    """
    folders = [PurePath(ROOMS[name]) for name in names]
    paths = {
        PurePath(path)
        for folder, row in TESTS.items()
        for path in row
        if any(PurePath(folder).is_relative_to(room) for room in folders)
    }
    return sorted(str(path) for path in paths if paths.isdisjoint(path.parents))


def main(names: Sequence[str]) -> int:
    """Print the folders and files with the tests of rooms, on one line; return the exit status."""
    for name in names:
        if name not in ROOMS:
            print(f"error: no room {name!r}; ROOM is one of:", file=sys.stderr)
            print(
                *(f"  {room:21} {ROOMS[room]}" for room in sorted(ROOMS)), sep="\n", file=sys.stderr
            )
            return 2
    print(*tests_of(names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
