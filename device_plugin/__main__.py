"""Entry points of a node's programs: each starts one, or prints which package is missing."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

_OURS = ("device_plugin", "gpu_operator", "mig", "rdma", "vgpu_sim")


def main() -> None:
    """``tessera-device-plugin``: serve this node's slices."""
    _program("tessera-device-plugin", "device_plugin.app")()


def exporter() -> None:
    """``tessera-exporter``: serve metrics until SIGTERM."""
    _program("tessera-exporter", "device_plugin.exporter.app")()


def linkd() -> None:
    """``tessera-linkd``: enforce the second layer until SIGTERM."""
    _program("tessera-linkd", "device_plugin.second_layer.daemon")(prog_name="tessera-linkd")


def _program(name: str, module: str) -> Callable[..., Any]:
    """Return a module's ``main``; if a library is missing, print one line and exit with 1."""
    try:
        entry_point: Callable[..., Any] = importlib.import_module(module).main
    except ModuleNotFoundError as err:
        package = (err.name or "").partition(".")[0]
        if not package or package in _OURS:
            raise
        sys.exit(f"{name}: {package} is not installed: pip install 'tessera[plugin]'")
    return entry_point


if __name__ == "__main__":
    main()
