"""The node's CDI files but those of claims: slices, also as NVIDIA names them, and functions."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from device_plugin.cdi import hca, nvidia, spec, writer
from device_plugin.cdi.spec import Mount
from device_plugin.config import Settings
from device_plugin.inventory.functions import HcaFunction
from device_plugin.inventory.model import Gpu, Inventory


class CdiFiles:
    """Writes them, unless the kubelet is given mounts in their place."""

    def __init__(self, settings: Settings, libraries_dir: Path) -> None:
        self._directory = settings.cdi_dir
        self._prefix = settings.resource_prefix
        self._use_cdi = settings.use_cdi
        self._libraries_dir = str(libraries_dir)

    def write_slices(self, inventory: Inventory, programs: Sequence[Mount]) -> None:
        """Write what containers get with slices that no claim has. Raises OSError."""
        if not self._use_cdi:
            return
        own = inventory.unclaimed()
        writer.write(self._directory, spec.render(self._prefix, self._libraries_dir, own, programs))
        gpus: Sequence[Gpu] = ()  # NVIDIA's names: with its prefix, where its toolkit is not there
        if self._prefix == nvidia.PREFIX:
            gpus = () if nvidia.is_taken(self._directory) else inventory.gpus
        document = nvidia.render(self._libraries_dir, gpus, programs)
        writer.write(self._directory, document, nvidia.FILE_NAME)

    def write_functions(self, functions: Iterable[HcaFunction]) -> None:
        """Write what containers get with functions of HCAs. Raises OSError."""
        if self._use_cdi:
            document = hca.render(self._libraries_dir, functions)
            writer.write(self._directory, document, hca.FILE_NAME)
