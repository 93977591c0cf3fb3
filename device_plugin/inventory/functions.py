"""The HCA functions of a node: how many follows from its pool, their names from the node's."""

import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from device_plugin.config import Hcas
from gpu_operator.api.v1alpha1 import HCA_RESOURCE

RESOURCE: Final = HCA_RESOURCE
CDI_KIND: Final = "rdma.tessera.dev/function"
ID: Final = re.compile(r"HCA-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_NAMESPACE: Final = uuid.UUID("0b9f62fd-3a0e-4a6b-8a3c-5e2f7f0d9c41")  # ours, random, for ever


@dataclass(frozen=True, slots=True)
class HcaFunction:
    """One function: what a container is given, and the HCA (its simulated PCIe root) it is of."""

    id: str
    hca: int
    socket_dir: str
    classes_dir: str


def functions_of(node_name: str, hcas: Hcas, directory: Path) -> tuple[HcaFunction, ...]:
    """Return a node's functions, whose folders hcad keeps below ``directory``."""
    found = []
    for hca in range(hcas.count):
        for index in range(hcas.functions_per_hca):
            name = f"HCA-{uuid.uuid5(_NAMESPACE, f'{node_name}/{hca}/{index}')}"
            sockets, classes = directory / "functions" / name, directory / "classes" / name
            found.append(HcaFunction(name, hca, str(sockets), str(classes)))
    return tuple(found)
