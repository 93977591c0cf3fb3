"""A node's labels as GPU Feature Discovery writes them (k8s-device-plugin, internal/lm).

Values that a node agent reports become labels only if they are valid. Profiles are looked up on
the board, never copied.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mig import geometry
from mig.errors import MigError

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_LONGEST: Final = 63  # characters of a label value
_MIB: Final = 1 << 20
TIMESTAMP: Final = "gfd.timestamp"
_BY_RESOURCE: Final = frozenset(
    {
        "count",
        "product",
        "replicas",
        "sharing-strategy",
        "memory",
        "multiprocessors",
        "slices.gi",
        "slices.ci",
        "engines.copy",
        "engines.decoder",
        "engines.encoder",
        "engines.jpeg",
        "engines.ofa",
    }
)
_NODE_WIDE: Final = frozenset(
    {
        "gpu.present",
        "gpu.family",
        "gpu.machine",
        "gpu.mode",
        "gpu.compute.major",
        "gpu.compute.minor",
        "mig.capable",
        "mig.strategy",
        "mps.capable",
        "vgpu.present",
        TIMESTAMP,
        "cuda.driver.major",
        "cuda.driver.minor",
        "cuda.driver.rev",
        "cuda.runtime.major",
        "cuda.runtime.minor",
        *(f"cuda.driver-version.{part}" for part in ("full", "major", "minor", "revision")),
        *(f"cuda.runtime-version.{part}" for part in ("full", "major", "minor")),
    }
)
_OF_A_RESOURCE: Final = re.compile(
    r"(?:gpu|mig-[0-9a-z.-]+?gb[a-z.-]*)\.(" + "|".join(map(re.escape, sorted(_BY_RESOURCE))) + ")"
)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a resource is shared between containers: ``strategy`` is none, time-slicing or mps."""

    replicas: int = 1
    strategy: str = "none"
    renamed: bool = False

    @property
    def suffix(self) -> str:
        """Return the suffix of the product name that shows sharing.

        It is empty for a renamed resource, whose own name shows the sharing.
        """
        return "-SHARED" if self.replicas > 1 and not self.renamed else ""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of the node: its board, and the profile of each of its instances."""

    board: str
    mig_enabled: bool = True
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Software:
    """The software versions that a node agent reports, such as 13.0, and the machine type."""

    driver_version: str = ""
    cuda_version: str = ""
    machine: str = ""


def is_ours(name: str) -> bool:
    """Return whether a label with this name (without its prefix) can be in the result of
    ``labels``.
    """
    return name in _NODE_WIDE or describes_resource(name)


def describes_resource(name: str) -> bool:
    """Return whether a label name (without its prefix) describes a resource."""
    return _OF_A_RESOURCE.fullmatch(name) is not None


def labels(
    devices: Sequence[Device],
    strategy: str,
    software: Software | None = None,
    sharing: Mapping[str, Sharing] | None = None,
) -> dict[str, str]:
    """Return the labels, without prefix, of a node with these GPUs, all of one board.

    ``sharing`` maps a resource, such as "gpu" or "mig-1g.10gb", to how it is shared. The result
    does not include ``gfd.timestamp``.

    Raises:
        UnknownBoardError: the board does not exist.
    """
    if not devices:
        return {}
    board = geometry.board(devices[0].board)
    node_software = software or Software()
    node_labels = {
        "gpu.present": "true",
        "gpu.machine": _value(node_software.machine.strip().replace(" ", "-")) or "unknown",
        "gpu.family": board.architecture.lower(),
        "gpu.compute.major": str(board.compute_capability[0]),
        "gpu.compute.minor": str(board.compute_capability[1]),
        "gpu.mode": "compute",  # the supported boards are 3D controllers (PCI class 0302)
        "mig.capable": "true",
        "mps.capable": "false",
        "vgpu.present": "false",
    }
    node_labels |= _versions(node_software)
    node_labels |= _full(board, devices, sharing or {})
    if strategy == "none":
        return node_labels
    node_labels["mig.strategy"] = strategy
    slices = _profiles(board, devices)
    if strategy == "single":
        return node_labels | _single(board, devices, slices, sharing or {})
    for profile, count in slices.items():
        resource = profile.resource_name
        shared = (sharing or {}).get(resource, Sharing())
        node_labels |= _of_profile(board, profile, resource, count, shared)
    return node_labels


def _full(
    board: geometry.Board, devices: Sequence[Device], sharing: Mapping[str, Sharing]
) -> dict[str, str]:
    """Return the labels that describe the whole GPUs; ``replicas`` is 0 if all have MIG on."""
    shared = sharing.get("gpu", Sharing())
    offered = any(not device.mig_enabled for device in devices)
    return {
        "gpu.count": str(len(devices)),
        "gpu.product": _product(board) + (shared.suffix if offered else ""),
        "gpu.memory": str(board.memory_bytes // _MIB),
        "gpu.replicas": str(shared.replicas if offered else 0),
        "gpu.sharing-strategy": shared.strategy if offered else "none",
    }


def _single(
    board: geometry.Board,
    devices: Sequence[Device],
    slices: Mapping[geometry.DeviceProfile, int],
    sharing: Mapping[str, Sharing],
) -> dict[str, str]:
    """Return the labels for slices if all have one profile; otherwise those for MIG-INVALID."""
    if not any(device.mig_enabled for device in devices):
        return {}
    even = all(device.mig_enabled and device.profiles for device in devices)
    if even and len(slices) == 1:
        ((profile, count),) = slices.items()
        return _of_profile(board, profile, "gpu", count, sharing.get("gpu", Sharing()))
    return {
        "gpu.product": f"{_product(board)}-MIG-INVALID",
        "gpu.count": "0",
        "gpu.replicas": "0",
        "gpu.memory": "0",
        "gpu.sharing-strategy": "",
    }


def _of_profile(
    board: geometry.Board,
    device: geometry.DeviceProfile,
    resource: str,
    count: int,
    shared: Sharing,
) -> dict[str, str]:
    """Return the labels for devices of a profile; memory and engines are those of the GPU
    instance.
    """
    dotted = device.resource_name.removeprefix("mig-")
    engines = device.profile.engines
    values = {
        "count": count,
        "product": f"{_product(board)}-MIG-{dotted}{shared.suffix}"[:_LONGEST].rstrip("-._"),
        "replicas": shared.replicas,
        "sharing-strategy": shared.strategy,
        "memory": device.profile.memory_bytes // _MIB,
        "multiprocessors": device.sm_count,
        "slices.gi": device.profile.compute_slices,
        "slices.ci": device.compute_slices,
        "engines.copy": engines.copy,
        "engines.decoder": engines.decoder,
        "engines.encoder": engines.encoder,
        "engines.jpeg": engines.jpeg,
        "engines.ofa": engines.ofa,
    }
    return {f"{resource}.{name}": str(value) for name, value in values.items()}


def _profiles(
    board: geometry.Board, devices: Sequence[Device]
) -> Mapping[geometry.DeviceProfile, int]:
    """Count the MIG slices by profile; profiles that the board does not have are ignored."""

    def iterate() -> Iterator[geometry.DeviceProfile]:
        for device in devices:
            for name in device.profiles if device.mig_enabled else ():
                try:
                    yield board.device_profile(name)
                except MigError:
                    continue

    return Counter(iterate())


def _versions(node_software: Software) -> dict[str, str]:
    """Return the labels for the versions of driver and CUDA, including deprecated ones."""
    version_labels: dict[str, str] = {}
    driver, cuda = (
        _VERSION.fullmatch(v) for v in (node_software.driver_version, node_software.cuda_version)
    )
    if driver is not None:
        major, minor, revision = driver[1], driver[2], driver[3] or ""
        version_labels |= {
            "cuda.driver-version.full": driver[0],
            "cuda.driver-version.major": major,
            "cuda.driver-version.minor": minor,
            "cuda.driver-version.revision": revision,
            "cuda.driver.major": major,
            "cuda.driver.minor": minor,
            "cuda.driver.rev": revision,
        }
    if cuda is not None:
        version_labels |= {
            "cuda.runtime-version.full": f"{cuda[1]}.{cuda[2]}",
            "cuda.runtime-version.major": cuda[1],
            "cuda.runtime-version.minor": cuda[2],
            "cuda.runtime.major": cuda[1],
            "cuda.runtime.minor": cuda[2],
        }
    return version_labels


def _product(board: geometry.Board) -> str:
    return board.product_name.replace(" ", "-")


def _value(text: str) -> str:
    return text if _LABEL_VALUE.fullmatch(text) else ""
