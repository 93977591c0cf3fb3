"""Prepares a framework at the moment at which a program imports it.

A watcher on ``sys.meta_path`` sees each import before Python searches for the module, and finds
nothing itself.
"""

from __future__ import annotations

import os
from typing import Any

_MODULES = ("torch", "jax", "tensorflow", "onnxruntime")
_JAX_BACKENDS = "jax._src.xla_bridge"


class Watcher:
    """Prepares each framework once, and is no finder of modules otherwise."""

    def __init__(self) -> None:
        self._pending = {*_MODULES, _JAX_BACKENDS}

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        """Prepare the framework ``name``, if it is one that was not imported before."""
        if name not in self._pending:
            return
        self._pending.discard(name)
        from tessera_start import preparation

        try:
            if name == _JAX_BACKENDS:
                preparation.show_device_to_jax()
            else:
                preparation.prepare(name)
        except Exception as err:  # noqa: BLE001
            os.write(2, f"tessera: {name} is not prepared: {err!r}\n".encode())
