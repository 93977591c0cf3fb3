"""The HCA functions of a node; the node's pool determines their number."""

import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from device_plugin.config import MOST_FUNCTIONS, MOST_HCAS, Hcas
from gpu_operator.api.v1alpha1 import HCA_RESOURCE
from vgpu_sim.records import dataclass

RESOURCE: Final = HCA_RESOURCE
CDI_KIND: Final = "rdma.tessera.dev/function"
ID: Final = re.compile(r"HCA-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
# a random namespace of Tessera's; a change would rename every function
_NAMESPACE: Final = uuid.UUID("0b9f62fd-3a0e-4a6b-8a3c-5e2f7f0d9c41")


@dataclass(frozen=True, slots=True)
class HcaFunction:
    """An HCA function: its device id, the number of its HCA, and its folders on the node."""

    id: str
    hca: int
    socket_dir: str
    classes_dir: str


def functions_of(node_name: str, hcas: Hcas, directory: Path) -> tuple[HcaFunction, ...]:
    """Return the HCA functions of a node; hcad keeps their folders below ``directory``."""
    functions = []
    for hca in range(hcas.count):
        for index in range(hcas.functions_per_hca):
            name = _name_of(node_name, hca, index)
            sockets, classes = directory / "functions" / name, directory / "classes" / name
            functions.append(HcaFunction(name, hca, str(sockets), str(classes)))
    return tuple(functions)


def hcas_by_function(node_name: str) -> Mapping[str, int]:
    """Return the number of the HCA of every function that the node can have, by function."""
    return {
        _name_of(node_name, hca, index): hca
        for hca in range(MOST_HCAS)
        for index in range(MOST_FUNCTIONS)
    }


def _name_of(node_name: str, hca: int, index: int) -> str:
    return f"HCA-{uuid.uuid5(_NAMESPACE, f'{node_name}/{hca}/{index}')}"
