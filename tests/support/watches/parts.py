"""The three parts of the tests that need no cluster, of which ``pytest --part`` selects one.

Tests of ``COMPUTING`` use the processor throughout, and their results depend on no clock, so ``make
test`` runs them in CPU time that all others leave idle. The others measure times or restart what
they started: those of whole programs first, then unit tests, beside those that need the cluster.
"""

from pathlib import Path

COMPUTING_PART, PROCESSES_PART, UNITS_PART = PARTS = ("computing", "processes", "units")
UNITS = "tests/unit/"
COMPUTING = (
    "tests/conformance",
    "tests/golden",
    "tests/integration/packages",
    "tests/integration/run/test_run_clang_kernels.py",
    "tests/integration/run/test_run_client_kernels.py",
    "tests/integration/run/test_run_sdk.py",
    "tests/unit/benchmarks",
    "tests/unit/boards",
    "tests/unit/chart",
    "tests/unit/diagnosis",
    "tests/unit/drawing",
    "tests/unit/facts",
    "tests/unit/gpu_operator/layouts",
    "tests/unit/gpu_operator/nodes",
    "tests/unit/gpu_operator/rdma/test_rdma_schema_fuzz.py",
    "tests/unit/hca/cm/test_rdmacm_model.py",
    "tests/unit/mig",
    "tests/unit/plugins",
    "tests/unit/rdma",
    "tests/unit/repository",
    "tests/unit/vgpu_sim/clients/test_native_ring.py",
    "tests/unit/vgpu_sim/compiler",
    "tests/unit/vgpu_sim/interp",
    "tests/unit/vgpu_sim/isa",
    "tests/unit/vgpu_sim/jit_analysis",
    "tests/unit/vgpu_sim/jit_code",
    "tests/unit/vgpu_sim/native",
    "tests/unit/vgpu_sim/perf",
    "tests/unit/vgpu_sim/perf_validation",
    "tests/unit/vgpu_sim/ptx",
    "tests/unit/vgpu_sim/sdk",
    "tests/unit/vgpu_sim/worker_process/test_worker_native.py",
    "tests/unit/vgpu_sim/worker_process/test_worker_orders.py",
)
"""Folders, and files of folders whose other tests wait."""


def part_of(path: Path, root: Path) -> str:
    """Return the part to which a test file below ``root`` belongs."""
    name = f"{path.relative_to(root)}/"
    if any(name.startswith(f"{place}/") for place in COMPUTING):
        return COMPUTING_PART
    return UNITS_PART if name.startswith(UNITS) else PROCESSES_PART
