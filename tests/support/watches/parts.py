"""The two parts of the tests that need no cluster: those that only compute, and those that wait.

Tests in the folders of ``COMPUTING`` use the processor throughout and depend on no clock, so
``make test`` runs them at the lowest priority beside the end-to-end tests, which mostly wait. All
other tests start processes or measure times, and run before the cluster starts.
"""

from pathlib import Path

COMPUTING_PART, PROCESSES_PART = "computing", "processes"
PARTS = (COMPUTING_PART, PROCESSES_PART)
COMPUTING = (
    "tests/conformance",
    "tests/unit/mig",
    "tests/unit/rdma",
    "tests/unit/vgpu_sim/compiler",
    "tests/unit/vgpu_sim/interp",
    "tests/unit/vgpu_sim/isa",
    "tests/unit/vgpu_sim/jit_analysis",
    "tests/unit/vgpu_sim/jit_code",
    "tests/unit/vgpu_sim/perf",
    "tests/unit/vgpu_sim/perf_validation",
)


def part_of(path: Path, root: Path) -> str:
    """Return the part to which a test file below ``root`` belongs."""
    computes = any(path.is_relative_to(root / folder) for folder in COMPUTING)
    return COMPUTING_PART if computes else PROCESSES_PART
