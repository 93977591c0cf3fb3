"""Mounts of an HCA function: its socket's folder, client libraries, and files that tools read.

One mount replaces all of /sys/class by equivalent links and the function's own entries, because
sysfs allows no new entries (ADR 39).
"""

from collections.abc import Iterable
from typing import Any

from device_plugin.cdi.spec import LIBRARY_DIRS, Mount, document
from device_plugin.inventory.functions import CDI_KIND, HcaFunction

CONTAINER_FUNCTION_DIR = "/run/tessera/function"
LIBRARIES = ("libibverbs.so.1", "librdmacm.so.1")
FILE_NAME = "tessera-rdma.json"


def function_mounts(function: HcaFunction) -> tuple[Mount, ...]:
    """Return the mounts of one HCA function for a container.

    The first mount gives the container access to the function.
    """
    return (
        Mount(function.socket_dir, CONTAINER_FUNCTION_DIR),
        Mount(function.classes_dir, "/sys/class"),
    )


def library_mounts(libraries_dir: str) -> tuple[Mount, ...]:
    """Return the mounts of the client libraries."""
    return tuple(
        Mount(f"{libraries_dir}/{library}", f"{directory}/{library}")
        for directory in LIBRARY_DIRS
        for library in LIBRARIES
    )


def device_name(function: HcaFunction) -> str:
    """Return the qualified CDI device name of a function."""
    return f"{CDI_KIND}={function.id}"


def render(libraries_dir: str, functions: Iterable[HcaFunction]) -> dict[str, Any]:
    """Return the CDI document for these functions."""
    return document(
        CDI_KIND,
        library_mounts(libraries_dir),
        {function.id: function_mounts(function) for function in functions},
    )
