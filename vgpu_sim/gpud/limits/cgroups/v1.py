"""Control groups version 1: one tree per controller; a worker must join a group in each of them.

When the kubelet removes gpud's pod, it kills the processes in the pod's group of any hierarchy.
Workers must survive that, so every mounted hierarchy gets the slices' groups, not only memory
and cpu. ``cpuset`` refuses processes until cpus and mems are copied from the parent, at each
level.
"""

from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud.limits.cgroups.base import CPU_PERIOD_US, Isolation, Share
from vgpu_sim.gpud.model import InstanceUuid, parse_instance_uuid

HIERARCHIES = (
    "memory",
    "cpu",
    "cpuacct",
    "cpuset",
    "pids",
    "freezer",
    "blkio",
    "devices",
    "systemd",
    "unified",
)
_WEIGHT_OF_ONE_CPU = 1024  # the kernel's default cpu.shares
_SMALLEST_SHARES = 2


class CgroupsV1:
    """Control groups named ``<root>/<hierarchy>/<parent>/<instance uuid>``. The constructor raises
    OSError if the kernel refuses to create groups.
    """

    def __init__(self, root: Path, parent: str, cpu_count: int) -> None:
        present = [name for name in HIERARCHIES if (root / name / "cgroup.procs").is_file()]
        for needed in ("memory", "cpu"):
            if needed not in present:
                raise FileNotFoundError(f"{root / needed} is no cgroup v1 hierarchy")
        self._parents = {name: root / name / parent for name in present}
        self._cpu_count = cpu_count
        self._make_parents()

    @property
    def isolation(self) -> Isolation:
        """Return an ``Isolation`` that states that limits are enforced. The constructor has
        verified that the needed hierarchies are available.
        """
        return Isolation(True, "")

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        """Create or update the slice's group in every hierarchy."""
        try:
            self._make_groups(uuid)
        except (
            FileNotFoundError
        ):  # another gpud of this machine removed the empty parent as it ended
            self._make_parents()
            self._make_groups(uuid)
        memory = self._parents["memory"] / uuid
        _write(memory / "memory.limit_in_bytes", share.memory_limit_bytes(contexts))
        cpu = self._parents["cpu"] / uuid
        weight = _WEIGHT_OF_ONE_CPU * share.cpu_count * share.sm_count // share.board_sm_count
        _write(cpu / "cpu.shares", max(_SMALLEST_SHARES, weight))
        _write(cpu / "cpu.cfs_period_us", CPU_PERIOD_US)
        _write(cpu / "cpu.cfs_quota_us", share.quota_us() if share.strict else -1)

    def _make_parents(self) -> None:
        for group in self._parents.values():
            _make(group)
        # Together the slices compete with the pods at the weight of the node's CPUs.
        _write(self._parents["cpu"] / "cpu.shares", self._cpu_count * _WEIGHT_OF_ONE_CPU)

    def _make_groups(self, uuid: InstanceUuid) -> None:
        for parent in self._parents.values():
            _make(parent / uuid)

    def procs_files(self, uuid: InstanceUuid) -> tuple[str, ...]:
        """Return, for each hierarchy, the file of the slice's group into which a worker writes its
        pid.
        """
        return tuple(str(parent / uuid / "cgroup.procs") for parent in self._parents.values())

    def processes(self, uuid: InstanceUuid) -> frozenset[int]:
        """Return the pids in the slice's group in the memory hierarchy."""
        try:
            text = (self._parents["memory"] / uuid / "cgroup.procs").read_text(encoding="ascii")
        except FileNotFoundError:
            return frozenset()
        return frozenset(map(int, text.split()))

    def shared_bytes(self, uuid: InstanceUuid) -> int:
        """Return the shared memory charged to the slice's group: ``shmem`` of the memory
        hierarchy's statistics.
        """
        return shmem_of(self._parents["memory"] / uuid)

    def existing(self) -> frozenset[InstanceUuid]:
        """Return the slices that have a group in any hierarchy."""
        return frozenset(
            uuid for parent in self._parents.values() for uuid in slice_directories(parent)
        )

    def remove(self, uuid: InstanceUuid) -> None:
        """Remove the slice's group in every hierarchy."""
        for parent in self._parents.values():
            remove_group(parent / uuid)

    def remove_parent(self) -> None:
        """In each hierarchy, remove the parent group, unless it still contains groups."""
        for parent in self._parents.values():
            with suppress(OSError):
                remove_group(parent)


def slice_directories(parent: Path) -> list[InstanceUuid]:
    """Return the sub-directories of a parent group that are named after instances. If the parent
    does not exist, the list is empty.
    """
    uuids: list[InstanceUuid] = []
    try:
        entries = list(parent.iterdir())
    except FileNotFoundError:
        return uuids
    for entry in entries:
        try:
            uuids.append(parse_instance_uuid(entry.name))
        except ValueError:
            continue
    return uuids


def shmem_of(group: Path) -> int:
    """Return ``shmem`` in bytes from a group's ``memory.stat``, or 0 if there is none.

    Both versions of control groups have this field.
    """
    try:
        text = (group / "memory.stat").read_text(encoding="ascii")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("shmem "):
            return int(line.split()[1])
    return 0


def remove_group(group: Path) -> None:
    """Remove a group's directory and with it the group. Raises OSError while processes are in the
    group.
    """
    try:
        group.rmdir()
    except FileNotFoundError:
        return


def _make(group: Path) -> None:
    group.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = group / name
        if file.is_file() and not file.read_text(encoding="ascii").strip():
            file.write_text((group.parent / name).read_text(encoding="ascii"), encoding="ascii")


def _write(file: Path, value: int) -> None:
    file.write_text(str(value), encoding="ascii")
