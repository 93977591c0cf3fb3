"""Control groups version 2, which has one tree for all controllers.

Only leaf groups may contain processes. The controllers are therefore enabled down to the parent
group, and workers join its children. ``make test-cgroup2`` runs this on a kernel with version 2
(ADR 216).

In version 2, a limit below the memory in use ends processes of the group at once, where version 1
refuses the limit. A limit is therefore never set below the memory in use.
"""

import errno
from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud.limits.cgroups.base import CPU_PERIOD_US, Isolation, Share
from vgpu_sim.gpud.limits.cgroups.v1 import remove_group, shmem_of, slice_directories
from vgpu_sim.gpud.model import InstanceUuid

CONTROLLERS = ("memory", "cpu")
_WEIGHT_OF_ONE_CPU = 100  # the kernel's default cpu.weight
_HEAVIEST = 10_000


class CgroupsV2:
    """Control groups named ``<root>/<parent>/<instance uuid>``. The constructor raises OSError if
    the kernel refuses to create groups.
    """

    def __init__(self, root: Path, parent: str, cpu_count: int) -> None:
        available = (root / "cgroup.controllers").read_text(encoding="ascii").split()
        missing = [name for name in CONTROLLERS if name not in available]
        if missing:
            reason = f"the group does not offer the controllers {' '.join(missing)}"
            raise OSError(errno.ENOENT, reason, str(root))
        self._parent = root / parent
        self._cpu_count = cpu_count
        self._make_parent()

    @property
    def isolation(self) -> Isolation:
        """Return an ``Isolation`` that states that limits are enforced. The constructor has
        verified that the needed controllers are available.
        """
        return Isolation(True, "")

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        """Create or update the slice's group."""
        group = self._parent / uuid
        try:
            group.mkdir(exist_ok=True)
        except (
            FileNotFoundError
        ):  # another gpud of this machine removed the empty parent as it ended
            self._make_parent()
            group.mkdir(exist_ok=True)
        limit_bytes = share.memory_limit_bytes(contexts)
        _write(group / "memory.max", max(limit_bytes, _memory_in_use_bytes(group)))
        _write(group / "memory.swap.max", 0)
        weight = _WEIGHT_OF_ONE_CPU * share.cpu_count * share.sm_count // share.board_sm_count
        _write(group / "cpu.weight", min(_HEAVIEST, max(1, weight)))
        quota = str(share.quota_us()) if share.strict else "max"
        (group / "cpu.max").write_text(f"{quota} {CPU_PERIOD_US}", encoding="ascii")

    def _make_parent(self) -> None:
        self._parent.mkdir(exist_ok=True)
        try:
            for group in (self._parent.parent, self._parent):
                _enable_controllers(group)
        except OSError:
            self.remove_parent()
            raise
        _write(self._parent / "cpu.weight", min(_HEAVIEST, self._cpu_count * _WEIGHT_OF_ONE_CPU))

    def procs_files(self, uuid: InstanceUuid) -> tuple[str, ...]:
        """Return the ``cgroup.procs`` file of the slice's group, into which a worker writes its
        pid.
        """
        return (str(self._parent / uuid / "cgroup.procs"),)

    def processes(self, uuid: InstanceUuid) -> frozenset[int]:
        """Return the pids in the slice's group."""
        try:
            text = (self._parent / uuid / "cgroup.procs").read_text(encoding="ascii")
        except OSError as err:
            # ENODEV: the group was removed after the file was opened
            if err.errno in (errno.ENOENT, errno.ENODEV):
                return frozenset()
            raise
        return frozenset(map(int, text.split()))

    def shared_bytes(self, uuid: InstanceUuid) -> int:
        """Return the shared memory charged to the slice's group: ``shmem`` of its statistics."""
        return shmem_of(self._parent / uuid)

    def existing(self) -> frozenset[InstanceUuid]:
        """Return the slices that have a group."""
        return frozenset(slice_directories(self._parent))

    def remove(self, uuid: InstanceUuid) -> None:
        """Remove the slice's group."""
        remove_group(self._parent / uuid)

    def remove_parent(self) -> None:
        """Remove the parent group, unless it still contains groups. The controllers that are
        delegated to the parent group stay delegated.
        """
        with suppress(OSError):
            remove_group(self._parent)


def _enable_controllers(group: Path) -> None:
    """Let a group's children have the controllers. Raises OSError, with the reason if the group
    contains processes: then the kernel enables nothing ("no internal process constraint").
    """
    file = group / "cgroup.subtree_control"
    try:
        file.write_text(" ".join(f"+{name}" for name in CONTROLLERS), encoding="ascii")
    except OSError as err:
        if err.errno != errno.EBUSY:
            raise
        reason = "the group contains processes, so its children cannot have controllers"
        raise OSError(errno.EBUSY, reason, str(group)) from err


def _memory_in_use_bytes(group: Path) -> int:
    try:
        return int((group / "memory.current").read_text(encoding="ascii"))
    except FileNotFoundError:  # the group was removed: writing its limit reports that
        return 0


def _write(file: Path, value: int) -> None:
    if file.name == "memory.swap.max" and not file.exists():
        return  # a kernel without swap accounting
    file.write_text(str(value), encoding="ascii")
