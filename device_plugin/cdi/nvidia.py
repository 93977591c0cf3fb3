"""CDI devices under the names of NVIDIA's container toolkit.

The kind ``nvidia.com/gpu`` has the names that ``nvidia-ctk cdi generate`` makes: a whole GPU by
its index, a MIG device by "GPU:index", each by UUID, and ``all``. They lead to the same mounts
as the names that the node agent gives the kubelet, and grant nothing by themselves: gpud serves
a slice only to the pod that the kubelet lists for it, even if another pod has the slice's socket
(ADR 56).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from device_plugin.cdi import spec
from device_plugin.cdi.spec import Mount
from device_plugin.inventory.model import Gpu, MigSlice
from mig.geometry.naming import WHOLE
from vgpu_sim.system import device_files as inert

KIND = "nvidia.com/gpu"
PREFIX = "nvidia.com"  # the resource prefix that enables these names
FILE_NAME = "tessera-nvidia.json"
ALL = "all"
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

NVIDIA_SMI = "nvidia-smi"
NVIDIA_SMI_PATH = "/usr/bin/nvidia-smi"


def optional_mounts(
    libraries_dir: str, *, nvidia_smi: bool = False, device_files: bool = False
) -> tuple[Mount, ...]:
    """Return the mounts of the command ``nvidia-smi`` and of inert device files, if wanted."""
    smi = Mount(f"{libraries_dir}/{NVIDIA_SMI}", NVIDIA_SMI_PATH)
    empty = f"{libraries_dir}/{inert.EMPTY}"
    files = (Mount(empty, f"/dev/{name}") for name in inert.NAMES)
    return (*((smi,) if nvidia_smi else ()), *(files if device_files else ()))


def environment(slices: Iterable[MigSlice]) -> dict[str, str]:
    """Return the environment variables that NVIDIA's container toolkit would set.

    They only inform the program: they do not give it access to a device.
    """
    return {VISIBLE_DEVICES: ",".join(s.uuid for s in slices)}


def render(
    libraries_dir: str, gpus: Iterable[Gpu], programs: Iterable[Mount] = ()
) -> dict[str, Any]:
    """Return the CDI document of the kind ``nvidia.com/gpu`` for these GPUs."""
    devices: dict[str, tuple[Mount, ...]] = {}
    for gpu in gpus:
        for name, mig_slice in _names(gpu):
            devices[name] = devices[mig_slice.uuid] = (spec.slice_mount(mig_slice),)
    if devices:
        devices[ALL] = tuple({mount: None for mounts in devices.values() for mount in mounts})
    return spec.document(KIND, (*spec.library_mounts(libraries_dir), *programs), devices)


def _names(gpu: Gpu) -> Iterable[tuple[str, MigSlice]]:
    migs = 0
    for mig_slice in gpu.slices:
        whole = mig_slice.instance.profile.name == WHOLE
        name = f"{gpu.index}" if whole else f"{gpu.index}:{migs}"
        migs += not whole
        if not mig_slice.claims:  # a claim's slice is named in the claim's own file
            yield name, mig_slice


def is_taken(directory: Path) -> bool:
    """Return whether another file of a CDI directory defines the kind ``nvidia.com/gpu``.

    Such a file may, for example, describe the node's real GPUs. The caller then does not define
    the kind, because a device that two files of one directory define cannot be resolved. A file
    is ignored if it cannot be read or is not CDI.
    """
    for path in directory.glob("*"):
        if path.name == FILE_NAME or path.suffix not in {".json", ".yaml", ".yml"}:
            continue
        try:
            text = path.read_text(encoding="utf-8")
            document = yaml.safe_load(text) if KIND in text else None  # parsing a long file is slow
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        if isinstance(document, dict) and document.get("kind") == KIND:
            return True
    return False
