"""A gpud with a divided GPU and a whole one, and views of parts of it through NVML in this
process.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pynvml

from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions
from vgpu_sim.gpud.model import new_gpu_uuid
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.nvml import MANAGEMENT_SOCKET_NAME

BOARD = "h100-80gb"
_VARIABLES = ("TESSERA_SLICES_DIR", "TESSERA_MANAGEMENT_SOCKET", "TESSERA_TOKEN", "TESSERA_WAIT_S")


@dataclass(frozen=True)
class Rig:
    """``divided`` has 1g.10gb@0, 2g.20gb@2 and 3g.40gb@4; ``whole`` has MIG off."""

    node: StandaloneNode
    divided: str
    whole: str
    slices: dict[str, str]
    """Instances' UUIDs by profile."""

    def inventory(self) -> admin.Inventory:
        with self.node.admin() as client:
            return client.inventory()

    def gpu(self, uuid: str) -> admin.Gpu:
        return next(one for one in self.inventory().gpus if one.uuid == uuid)

    def instance(self, uuid: str) -> admin.Instance:
        return next(i for g in self.inventory().gpus for i in g.instances if i.uuid == uuid)

    def call(self, method: str, **params: object) -> None:
        with self.node.admin() as client:
            client.call(method, **params)

    def mount(self, directory: Path, *uuids: str) -> Path:
        """Return a folder with only these slices, as a container has them."""
        directory.mkdir()
        for uuid in uuids:
            (directory / uuid).symlink_to(self.node.slices_dir / uuid)
        return directory


@contextlib.contextmanager
def rig(directory: Path) -> Iterator[Rig]:
    """A gpud for one test module."""
    divided, whole = new_gpu_uuid(), new_gpu_uuid()
    options = StandaloneOptions(backend="interp", threads=2)
    with StandaloneNode([directory], options) as node, node.admin() as client:
        gpus = [
            {"uuid": uuid, "index": i, "board": BOARD} for i, uuid in enumerate((divided, whole))
        ]
        client.call("configure", gpus=gpus, budget_bytes=0)
        slices = {}
        for profile, start in (("1g.10gb", 0), ("2g.20gb", 2), ("3g.40gb", 4)):
            made = client.call("create_instance", gpu_uuid=divided, profile=profile, start=start)
            slices[profile] = made["uuid"]
        client.call("create_instance", gpu_uuid=whole, profile="whole", start=0)
        yield Rig(node, divided, whole, slices)


@contextlib.contextmanager
def load_nvml(libraries: Path, **variables: str) -> Iterator[None]:
    """Initialise NVML in this process, with these environment variables (names without
    TESSERA_).
    """
    # Loaded first: later requests for the soname then get this library.
    ctypes.CDLL(str(libraries / "libnvidia-ml.so.1"), mode=ctypes.RTLD_GLOBAL)
    before = {name: os.environ.pop(name, None) for name in _VARIABLES}
    os.environ.update({f"TESSERA_{name}": value for name, value in variables.items()})
    try:
        pynvml.nvmlInit()
        try:
            yield
        finally:
            pynvml.nvmlShutdown()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def node_view(libraries: Path, of: Rig) -> contextlib.AbstractContextManager[None]:
    """NVML as the node's administrator sees it."""
    return load_nvml(libraries, MANAGEMENT_SOCKET=str(of.node.run_dir / MANAGEMENT_SOCKET_NAME))


def slice_view(libraries: Path, mounted: Path) -> contextlib.AbstractContextManager[None]:
    """NVML as a container with the slices in a folder sees it."""
    return load_nvml(libraries, SLICES_DIR=str(mounted), WAIT_S="0")
