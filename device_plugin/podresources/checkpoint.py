"""Reads which devices the kubelet has allocated to init containers, from its own checkpoint.

The pod resources API omits init containers that end before the pod's other containers start, but
the kubelet keeps their devices for their pod until the pod has ended. Only the checkpoint of its
device manager records that. The kubelet replaces the file as a whole at each allocation. An entry
of a pod that has ended stays until the next one, so an entry counts only if a List that was made
after the file was read has the entry's pod.
"""

import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from vgpu_sim.records import dataclass

FILE_NAME: Final = "kubelet_internal_checkpoint"
_MAX_BYTES: Final = 16 << 20
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Allocation:
    """A device that the kubelet has allocated to a container of a pod."""

    pod_uid: str
    container: str
    resource: str
    device: str


class Checkpoint:
    """The checkpoint file of the kubelet's device manager. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problem = ""

    def allocations(self) -> tuple[Allocation, ...]:
        """Return the recorded allocations; none, and one warning, if the file cannot be used.

        A kubelet that has never allocated a device has no such file.
        """
        problem = ""
        result: tuple[Allocation, ...] = ()
        try:
            result = tuple(_entries(_read(self._path)))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
            problem = f"{self._path}: {err!r}"
        if problem and problem != self._problem:
            _log.warning("devices of init containers are unknown: %s", problem)
        self._problem = problem
        return result


def _read(path: Path) -> Any:
    """Read the file. Raises ValueError if users other than its owner could have written it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & _OTHERS_MAY_WRITE:
            raise ValueError("not a file that only its owner may write")
        if status.st_uid not in (0, os.geteuid()):
            raise ValueError(f"its owner is user {status.st_uid}")
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise ValueError(f"more than {_MAX_BYTES} bytes")
    return json.loads(text)


def _entries(document: Any) -> Iterator[Allocation]:
    """Yield the allocations of a checkpoint (pkg/kubelet/cm/devicemanager/checkpoint).

    The ids of devices are grouped by NUMA node.
    """
    for entry in document["Data"]["PodDeviceEntries"] or ():
        owner = entry["PodUID"], entry["ContainerName"], entry["ResourceName"]
        if not all(isinstance(name, str) for name in owner):
            raise ValueError("a name is not a string")
        for devices in entry["DeviceIDs"].values():
            for device in devices:
                if not isinstance(device, str):
                    raise ValueError("a device id is not a string")
                yield Allocation(*owner, device)
