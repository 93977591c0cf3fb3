"""Mounts of a slice: the slice's directory and the client libraries.

The libraries are mounted where loaders search by default (ADR 6). The slice's *directory* is
mounted, read-only, so that a new gpud's socket appears in running containers. No program needs an
environment variable for its slice: with NVIDIA's names some list the slices (``nvidia``), and
``environment`` has those that direct Triton and PyTorch (ADR 132, ADR 168).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from device_plugin.inventory.model import MigSlice
from vgpu_sim import frameworks
from vgpu_sim.records import dataclass

CDI_VERSION = "0.6.0"
CONTAINER_SLICES_DIR = "/run/tessera/slices"
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64")
# The CUDA runtime, in folders that loaders search last: an image's own runtime in another folder
# precedes it, and one at exactly these paths is masked.
RUNTIME_LIBRARIES = ("libcudart.so.12", "libcudart.so.13")
RUNTIME_DIRS = ("/usr/lib", "/usr/lib64")
# libcuda.so.1 loads them from this folder, in which no loader searches (ADR 133, ADR 141).
LOADED_LIBRARIES = (
    "libnvJitLink.so.12",
    "libnvJitLink.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so.13",
)
LOADED_DIR = "/usr/lib/tessera"
# Programs find them if LD_LIBRARY_PATH has this folder, before those of the image (ADR 149).
MATH_LIBRARIES = (
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.11",
    "libcufft.so.12",
    "libcupti.so.13",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcusolver.so.12",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libcufile.so.0",
    "libnccl.so.2",
    "libnvshmem_host.so.3",
    "libcudnn_adv.so.9",
    "libcudnn_cnn.so.9",
    "libcudnn_engines_precompiled.so.9",
    "libcudnn_engines_runtime_compiled.so.9",
    "libcudnn_engines_tensor_ir.so.9",
    "libcudnn_ext.so.9",
    "libcudnn_graph.so.9",
    "libcudnn_heuristic.so.9",
    "libcudnn_ops.so.9",
    # These load the others (ADR 168):
    "libtessera-cuda12.so",
    "libtessera-cuda13.so",
)
PRELOAD = "libtessera-cuda13.so"
MATH_DIR = f"{LOADED_DIR}/math"
# PyTorch finds its plug-in if PYTHONPATH has this folder (ADR 163), and its libraries if LD_PRELOAD
# has PRELOAD.
TORCH = "torch"
PTXAS = "ptxas"
PTXAS_PATH = "/usr/local/bin/ptxas"


@dataclass(frozen=True, slots=True)
class Mount:
    """A read-only bind mount of a file or directory of the node into a container."""

    host_path: str
    container_path: str


def slice_mount(mig_slice: MigSlice) -> Mount:
    """Return the mount through which a container can use a slice."""
    return Mount(mig_slice.socket_dir, f"{CONTAINER_SLICES_DIR}/{mig_slice.uuid}")


def library_mounts(libraries_dir: str) -> tuple[Mount, ...]:
    """Return the mounts of the client libraries, of PyTorch's plug-in and of ptxas."""
    placed = (
        (LIBRARIES, LIBRARY_DIRS),
        (RUNTIME_LIBRARIES, RUNTIME_DIRS),
        (LOADED_LIBRARIES, (LOADED_DIR,)),
        (MATH_LIBRARIES, (MATH_DIR,)),
        ((TORCH,), (LOADED_DIR,)),
        ((PTXAS,), (str(Path(PTXAS_PATH).parent),)),
    )
    return tuple(
        Mount(f"{libraries_dir}/{library}", f"{directory}/{library}")
        for libraries, directories in placed
        for library in libraries
        for directory in directories
    )


def environment(*, pytorch: bool = False) -> dict[str, str]:
    """Return the variables by which Triton finds ptxas and libcuda, those by which frameworks
    allocate memory as they need it (ADR 220), and those by which PyTorch finds its plug-in.

    The kubelet lets a pod's own variables of these names precede. A CDI document would replace
    them, so it sets none. Both replace an image's own, so that those for PyTorch are set only on
    request (ADR 168).
    """
    variables = dict.fromkeys(("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"), PTXAS_PATH)
    variables |= frameworks.defaults()
    variables["TRITON_LIBCUDA_PATH"] = LIBRARY_DIRS[0]  # the linker's cache of an image lacks it
    if pytorch:
        variables |= {"PYTHONPATH": f"{LOADED_DIR}/{TORCH}", "LD_PRELOAD": f"{MATH_DIR}/{PRELOAD}"}
    return variables


def kind(resource_prefix: str) -> str:
    """Return the CDI kind (vendor/class) of slices."""
    return f"{resource_prefix}/slice"


def device_name(resource_prefix: str, mig_slice: MigSlice) -> str:
    """Return the qualified CDI device name of a slice."""
    return f"{kind(resource_prefix)}={mig_slice.uuid}"


def render(
    resource_prefix: str,
    libraries_dir: str,
    slices: Iterable[MigSlice],
    programs: Iterable[Mount] = (),
) -> dict[str, Any]:
    """Return the CDI document for these slices.

    Each container gets the libraries and ``programs`` once, even with several slices.
    """
    return document(
        kind(resource_prefix),
        (*library_mounts(libraries_dir), *programs),
        {mig_slice.uuid: (slice_mount(mig_slice),) for mig_slice in slices},
    )


def document(
    kind: str, executable: Iterable[Mount], devices: Mapping[str, Iterable[Mount]]
) -> dict[str, Any]:
    """Return a CDI document.

    ``executable`` are the mounts that every container gets; files in them can be executed.
    ``devices`` has the mounts of each device, by device name; files in them cannot be executed.
    """
    return {
        "cdiVersion": CDI_VERSION,
        "kind": kind,
        "containerEdits": {"mounts": [_edit(m, "exec") for m in executable]},
        "devices": [
            {"name": name, "containerEdits": {"mounts": [_edit(m, "noexec") for m in mounts]}}
            for name, mounts in devices.items()
        ],
    }


def _edit(mount: Mount, execution: str) -> dict[str, Any]:
    options = ["ro", "nosuid", "nodev", "bind"]
    if execution == "noexec":
        options.append("noexec")
    return {
        "hostPath": mount.host_path,
        "containerPath": mount.container_path,
        "options": options,
    }
