"""The packages of the project: the files to mutate in each, and the tests that should fail, the
most specific first.

Paths are patterns below the root. A mutation is killed by the first test that fails; the wider
stages run only while it survives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_UNIT = "tests/unit/vgpu_sim"
_HCA = "tests/unit/hca"
_CLIENTS = "vgpu_sim/clients"
_RUNTIME = "vgpu_sim/worker/runtime"
_ENGINE = "hca/engine"
_RDMA_CLIENTS = "hca/clients"
# Tests that compile a few files themselves, and those files: they cannot detect other mutations.
_COMPILE = {
    "clients/test_native_slab.py": (f"{_CLIENTS}/libcuda/memory/slab.c",),
    "clients/test_native_table.py": (f"{_CLIENTS}/libcuda/modules/table.c",),
    "clients/test_native_transport.py": (f"{_CLIENTS}/common/transport.c",),
    "clients/test_native_ring.py": tuple(
        f"{_CLIENTS}/libcuda/{n}.c"
        for n in ("exchange/ring", "exchange/wait", "exchange/doorbell", "base/objects")
    ),
    "worker_process/test_worker_native.py": (_RUNTIME,),
    "worker_kernels/test_worker_stats.py": (f"{_RUNTIME}/requests/stats.c",),
}
_COMPILE_HCA = {
    "engine/test_hca_part_pace.py": (f"{_ENGINE}/wire/pace.c", f"{_ENGINE}/base/rates.c"),
    "engine/test_hca_part_rate.py": (f"{_ENGINE}/wire/rate.c", f"{_ENGINE}/base/rates.c"),
    "engine/test_hca_part_send.py": tuple(
        f"{_ENGINE}/{name}.c" for name in ("wire/send", "wire/routes", "packets/icrc")
    ),
}
_COMPILE_VERBS = {
    "clients/test_verbs_slots.py": tuple(
        f"{_RDMA_CLIENTS}/libibverbs/posting/{name}.c" for name in ("builder", "post")
    ),
    "clients/test_rdmacm_requests.py": tuple(
        f"{_RDMA_CLIENTS}/librdmacm/{name}.c" for name in ("addresses", "connect", "sockets")
    ),
}
# Tests of the HCA's engine without those that take minutes: fuzzing, and builds with sanitizers.
_HCA_TESTS = tuple(
    f"{_HCA}/*/test_hca_{name}.py"
    for name in (
        *("engine", "verbs", "policy", "datagrams", "hostile", "hostile_verbs", "raw", "windows"),
        *("boundaries", "hostile_slots", "message_lengths", "turns", "idle", "doorbell_orders"),
        *("reachability", "wire", "wire_atomics", "wire_broker", "wire_congestion"),
        *("wire_datagrams", "wire_faults", "wire_groups", "wire_hostile", "wire_policy"),
        *("wire_qos", "wire_reachability", "wire_readdress", "wire_saving", "wire_unreliable"),
    )
)


@dataclass(frozen=True, slots=True)
class Room:
    """Files by pattern, stages of tests by pattern, and tests that depend only on some files."""

    name: str
    files: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]
    sees: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ROOMS = (
    Room(
        "jit",
        ("vgpu_sim/exec/jit/**/*.py", "vgpu_sim/exec/*.py"),
        (
            (
                f"{_UNIT}/**/test_jit_*.py",
                f"{_UNIT}/**/test_cfg.py",
                f"{_UNIT}/**/test_own_files.py",
                f"{_UNIT}/**/test_approximations.py",
            ),
            ("tests/conformance",),
            ("tests/integration/run/test_run_programs.py",),
        ),
    ),
    Room(
        "interp",
        ("vgpu_sim/exec/interp/**/*.py",),
        ((f"{_UNIT}/interp/test_interp_*.py",), ("tests/conformance",)),
    ),
    Room(
        "compiler",
        ("vgpu_sim/compiler/**/*.py",),
        (
            (f"{_UNIT}/ptx/test_ptx_*.py", f"{_UNIT}/compiler/test_compiler_*.py"),
            ("tests/conformance/whole/test_conformance_kernels.py",),
        ),
    ),
    Room(
        "isa",
        ("vgpu_sim/isa/**/*.py", "vgpu_sim/hal/**/*.py", "hca/contract/*.py"),
        (
            (f"{_UNIT}/isa/test_isa_*.py", f"{_UNIT}/isa/test_hal_*.py"),
            (f"{_UNIT}/compiler/test_compiler_*.py",),
            (f"{_UNIT}/**/test_worker_*.py",),
        ),
    ),
    Room("drawing", ("drawing/*.py",), (("tests/unit/drawing",),)),
    Room("facts", ("facts/*.py",), (("tests/unit/facts",),)),
    Room(
        "boards",
        ("boards/**/*.py",),
        (
            ("tests/unit/boards",),
            ("tests/unit/mig/test_mig_geometry.py", "tests/golden/mig"),
            (f"{_UNIT}/perf/test_perf_boards.py", f"{_UNIT}/perf/test_perf_figures.py"),
            (f"{_UNIT}/gpud_node/test_gpud_attributes.py", f"{_UNIT}/gpud_node/test_gpud_tel*.py"),
        ),
    ),
    Room("mig", ("mig/**/*.py",), (("tests/unit/mig",),)),
    Room(
        "operator",
        ("operator/gpu_operator/**/*.py",),
        (("tests/unit/gpu_operator",), ("tests/unit/chart",)),
    ),
    Room(
        "console", ("console/**/*.py",), (("tests/unit/console",), ("tests/integration/console",))
    ),
    Room(
        "plugin",
        ("device_plugin/**/*.py",),
        (("tests/unit/device_plugin",), ("tests/integration/agent/test_agent_node.py",)),
    ),
    Room(
        "gpud",
        (
            "vgpu_sim/gpud/**/*.py",
            "vgpu_sim/system/**/*.py",
            "vgpu_sim/kernel_names/*.py",
            "vgpu_sim/options.py",
            "vgpu_sim/records.py",
            "vgpu_sim/zygote.py",
        ),
        (
            (
                f"{_UNIT}/**/test_gpud_*.py",
                # Tests that depend on vgpu_sim/system, the base of sandboxes, and on the zygote.
                f"{_UNIT}/**/test_system_*.py",
                f"{_UNIT}/system/test_options.py",
                f"{_UNIT}/system/test_records.py",
                f"{_UNIT}/system/test_kernel_names.py",
                f"{_UNIT}/**/test_worker_zygote.py",
                f"{_UNIT}/**/test_worker_seccomp.py",
                f"{_UNIT}/**/test_worker_landlock.py",
                f"{_HCA}/daemon/test_hcad_filter.py",
            ),
            ("tests/integration/**/test_gpud_*.py",),
            ("tests/integration/**/test_run_*.py",),
        ),
    ),
    Room(
        "worker",
        ("vgpu_sim/worker/**/*.py",),
        (
            (
                f"{_UNIT}/**/test_worker_*.py",
                f"{_UNIT}/**/test_perf_counts.py",
                f"{_UNIT}/**/test_perf_kernels.py",
                f"{_UNIT}/**/test_perf_run_report.py",
                f"{_UNIT}/**/test_jit_kept_objects.py",
            ),
            ("tests/abi",),
            ("tests/integration/**/test_run_*.py",),
        ),
    ),
    Room(
        "cli",
        ("vgpu_sim/cli/**/*.py", "vgpu_sim/yaml_nesting.py"),
        (
            (
                f"{_UNIT}/cli/test_cli_*.py",
                f"{_UNIT}/ptx/test_ptx_cli.py",
                "tests/unit/mig/test_mig_cli.py",
                "tests/golden/mig",
            ),
            ("tests/integration/**/test_run_*.py", "tests/integration/run/test_ptx_run.py"),
        ),
    ),
    Room(
        "rdma",
        ("rdma/**/*.py",),
        (
            ("tests/unit/rdma",),
            (
                "tests/unit/gpu_operator/**/test_rdma_*.py",
                "tests/unit/device_plugin/second_layer/test_second_layer_node.py",
                f"{_UNIT}/cli/test_cli_rdma.py",
            ),
            (
                "tests/integration/**/test_second_layer*.py",
                f"{_HCA}/engine/test_hca_reachability.py",
            ),
        ),
    ),
    Room(
        "hcad",
        ("hca/*.py", "hca/daemon/**/*.py"),
        (
            (f"{_HCA}/daemon/test_hcad_*.py", f"{_HCA}/*/test_rdmacm_*.py"),
            _HCA_TESTS,
            (
                "tests/integration/**/test_hcad_*.py",
                "tests/integration/**/test_rdmacm_*.py",
                "tests/integration/**/test_run_hca*.py",
            ),
        ),
    ),
    Room(
        "fabric",
        ("hca/binding/**/*.py",),
        (
            (
                f"{_HCA}/binding/test_qp_*.py",
                f"{_HCA}/binding/test_fabric_*.py",
                f"{_HCA}/daemon/test_hcad_*.py",
            ),
            _HCA_TESTS,
            ("tests/integration/rdma/test_run_hca.py",),
        ),
    ),
    Room(
        "perf",
        ("vgpu_sim/perf/**/*.py",),
        ((f"{_UNIT}/**/test_perf_*.py", f"{_UNIT}/cli/test_cli_perf.py"),),
    ),
    Room(
        "kubelet",
        ("kubelet_conformance/**/*.py",),
        (
            ("tests/unit/kubelet_conformance",),
            ("tests/integration/agent/test_kubelet_conformance.py",),
        ),
    ),
    Room(
        "native",
        (
            *(f"{_CLIENTS}/{part}/**/*.c" for part in ("common", "libcuda")),
            f"{_RUNTIME}/**/*.c",
        ),
        (
            tuple(f"{_UNIT}/{test}" for test in _COMPILE),
            (
                "tests/abi",
                f"{_UNIT}/**/test_worker_faults.py",
                f"{_UNIT}/**/test_worker_end_to_end.py",
            ),
            (f"{_UNIT}/*/test_native_*.py", "tests/integration/run/test_run_programs.py"),
        ),
        {f"{_UNIT}/{test}": seen for test, seen in _COMPILE.items()},
    ),
    Room(
        "hca",
        (f"{_ENGINE}/**/*.c",),
        (
            (*(f"{_HCA}/{test}" for test in _COMPILE_HCA), *_HCA_TESTS),
            (
                f"{_HCA}/*/test_rdmacm_*.py",
                f"{_HCA}/daemon/test_hcad_*.py",
                "tests/abi/verbs/test_verbs_limits.py",
                "tests/abi/verbs/test_verbs_states.py",
            ),
            ("tests/integration/**/test_run_hca*.py",),
        ),
        {f"{_HCA}/{test}": seen for test, seen in _COMPILE_HCA.items()},
    ),
    Room(
        "libnvml",
        (f"{_CLIENTS}/libnvml/**/*.c", f"{_CLIENTS}/nvidia_smi/**/*.c"),
        (
            ("tests/abi/**/test_nvml_*.py", "tests/golden/nvidia_smi"),
            (
                "tests/integration/nvidia/test_run_nvml.py",
                "tests/integration/**/test_nvidia_smi_*.py",
            ),
        ),
    ),
    Room(
        "runtime",
        tuple(
            f"{_CLIENTS}/{part}/**/*.c"
            for part in ("libcudart", "libnvjitlink", "libnvrtc", "math")
        ),
        (("tests/abi/cudart", "tests/abi/**/test_*nvjitlink*.py"),),
    ),
    Room(
        "tools",
        (
            *(f"{_CLIENTS}/{part}/**/*.c" for part in ("ptxas", "program")),
            "vgpu_sim/sdk/**/*.py",
        ),
        (
            (f"{_UNIT}/sdk", "tests/abi/driver/test_abi_ptxas.py"),
            ("tests/integration/run/test_run_sdk.py", "tests/golden/nvidia_smi"),
        ),
    ),
    Room(
        "verbs",
        tuple(f"{_RDMA_CLIENTS}/{part}/**/*.c" for part in ("libibverbs", "librdmacm", "provider")),
        (
            (
                *(f"{_HCA}/{test}" for test in _COMPILE_VERBS),
                "tests/abi/**/test_verbs_*.py",
                "tests/abi/**/test_rdmacm_*.py",
            ),
            (
                "tests/integration/rdma/test_run_hca.py",
                "tests/integration/rdma/test_run_system_verbs.py",
                "tests/integration/rdma/test_rdmacm_run.py",
                "tests/integration/rdma/test_hcad_killed.py",
            ),
        ),
        {f"{_HCA}/{test}": seen for test, seen in _COMPILE_VERBS.items()},
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
"""The slowest tests, which run last in their stage: other tests kill most mutations before."""
NOT_MUTATED = ("_pb2", "/generated/", "/codegen/")
"""Generated files and their generators."""
