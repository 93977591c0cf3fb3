"""The rooms of the house: whose files are mutated, and which tests should notice, narrowest first.

Paths are patterns below the root. A mutation is killed by the first test that fails; the wider
stages run only while it lives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_UNIT = "tests/unit/vgpu_sim"
_NATIVE = "vgpu_sim/native"
# Tests that compile a few files of their own, and which: elsewhere they would notice nothing.
_COMPILE = {
    "test_native_slab.py": ("libcuda/slab.c",),
    "test_native_table.py": ("libcuda/table.c",),
    "test_native_transport.py": ("client/transport.c",),
    "test_native_ring.py": tuple(f"libcuda/{n}.c" for n in ("ring", "wait", "doorbell", "objects")),
    "test_worker_native.py": ("worker",),
}


@dataclass(frozen=True, slots=True)
class Room:
    """Files by pattern, stages of tests by pattern, and tests that see some files alone."""

    name: str
    files: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]
    sees: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ROOMS = (
    Room(
        "jit",
        ("vgpu_sim/exec/jit/**/*.py", "vgpu_sim/exec/cfg.py", "vgpu_sim/exec/errors.py"),
        (
            (f"{_UNIT}/test_jit_*.py", f"{_UNIT}/test_cfg.py"),
            ("tests/conformance",),
            ("tests/integration/test_run_programs.py",),
        ),
    ),
    Room(
        "interp",
        ("vgpu_sim/exec/interp/**/*.py",),
        ((f"{_UNIT}/test_interp_*.py",), ("tests/conformance",)),
    ),
    Room(
        "compiler",
        ("vgpu_sim/compiler/**/*.py",),
        (
            (f"{_UNIT}/test_ptx_*.py", f"{_UNIT}/test_compiler_*.py"),
            ("tests/conformance/test_conformance_kernels.py",),
        ),
    ),
    Room(
        "isa",
        ("vgpu_sim/isa/**/*.py", "vgpu_sim/hal/*.py"),
        ((f"{_UNIT}/test_isa_*.py", f"{_UNIT}/test_hal_*.py"), (f"{_UNIT}/test_compiler_*.py",)),
    ),
    Room("mig", ("mig/**/*.py",), (("tests/unit/mig",),)),
    Room(
        "operator",
        ("operator/gpu_operator/**/*.py",),
        (("tests/unit/gpu_operator",), ("tests/unit/chart",)),
    ),
    Room(
        "plugin",
        ("device_plugin/**/*.py",),
        (("tests/unit/device_plugin",), ("tests/integration/test_agent_node.py",)),
    ),
    Room(
        "gpud",
        ("vgpu_sim/gpud/**/*.py", "vgpu_sim/system/*.py", "vgpu_sim/zygote.py"),
        (
            (f"{_UNIT}/test_gpud_*.py",),
            ("tests/integration/test_gpud_*.py",),
            ("tests/integration/test_run_*.py",),
        ),
    ),
    Room(
        "worker",
        ("vgpu_sim/worker/**/*.py",),
        ((f"{_UNIT}/test_worker_*.py",), ("tests/abi",), ("tests/integration/test_run_*.py",)),
    ),
    Room(
        "cli",
        ("vgpu_sim/cli/**/*.py",),
        (
            (
                f"{_UNIT}/test_cli_*.py",
                f"{_UNIT}/test_ptx_cli.py",
                "tests/unit/mig/test_mig_cli.py",
                "tests/golden/mig",
            ),
            ("tests/integration/test_run_*.py",),
        ),
    ),
    Room(
        "native",
        (f"{_NATIVE}/**/*.c",),
        (
            tuple(f"{_UNIT}/{test}" for test in _COMPILE),
            ("tests/abi", f"{_UNIT}/test_worker_faults.py", f"{_UNIT}/test_worker_end_to_end.py"),
            (f"{_UNIT}/test_native_*.py", "tests/integration/test_run_programs.py"),
        ),
        {
            f"{_UNIT}/{test}": tuple(f"{_NATIVE}/{p}" for p in seen)
            for test, seen in _COMPILE.items()
        },
    ),
)
LAST = frozenset(
    {
        "test_abi_programs.py",
        "test_conformance_clamp.py",
        "test_conformance_kernels.py",
        "test_jit_refusals.py",
        "test_jit_text.py",
        "test_ptx_cli.py",
        "test_ptx_fuzz.py",
    }
)
"""Tests that take the most time of their stage: most mutations are killed by others before them."""
NOT_MUTATED = ("_pb2", "/generated/", "/geometry/tables/")
"""Generated files, and tables of data that other tests compare with recordings."""
