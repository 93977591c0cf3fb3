"""The node's CDI files for slices (also under NVIDIA's names) and HCA functions.

The files for claims are in ``cdi.claims``.
"""

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from device_plugin.cdi import hca, nvidia, spec, writer
from device_plugin.cdi.spec import Mount
from device_plugin.config import Settings
from device_plugin.inventory.functions import HcaFunction
from device_plugin.inventory.model import Gpu, Inventory


class CdiFiles:
    """Writes the node's CDI files until ``stop_writing`` is called.

    If the kubelet is given mounts instead of CDI devices, no file is written. ``_lock`` guards
    the files: the reconcile thread writes them, another thread calls ``stop_writing``.
    """

    def __init__(self, settings: Settings, libraries_dir: Path) -> None:
        self._directory = settings.cdi_dir
        self._prefix = settings.resource_prefix
        self._use_cdi = settings.use_cdi
        self._libraries_dir = str(libraries_dir)
        self._lock = threading.Lock()
        self._ended = False

    def write_slices(self, inventory: Inventory, programs: Sequence[Mount]) -> None:
        """Write the CDI devices of all slices that no claim holds. Raises OSError."""
        if not self._use_cdi:
            return
        own = inventory.unclaimed_slices()
        gpus: Sequence[
            Gpu
        ] = ()  # NVIDIA's names are served under its prefix unless its toolkit is on the node.
        if self._prefix == nvidia.PREFIX:
            gpus = () if nvidia.is_taken(self._directory) else inventory.gpus
        self._write(
            {
                writer.FILE_NAME: spec.render(self._prefix, self._libraries_dir, own, programs),
                nvidia.FILE_NAME: nvidia.render(self._libraries_dir, gpus, programs),
            }
        )

    def write_functions(self, functions: Iterable[HcaFunction]) -> None:
        """Write the CDI devices of HCA functions. Raises OSError."""
        if self._use_cdi:
            self._write({hca.FILE_NAME: hca.render(self._libraries_dir, functions)})

    def stop_writing(self, *, remove: bool) -> None:
        """Write no CDI file from now on, and with ``remove`` delete the existing ones.

        Raises OSError.
        """
        with self._lock:
            self._ended = True
            if remove and self._use_cdi:
                for name in (writer.FILE_NAME, nvidia.FILE_NAME, hca.FILE_NAME):
                    (self._directory / name).unlink(missing_ok=True)

    def _write(self, documents: dict[str, dict[str, Any]]) -> None:
        with self._lock:
            if not self._ended:
                for name, document in documents.items():
                    writer.write(self._directory, document, name)
