"""What gpud asks of control groups, whichever version the node has."""

from dataclasses import dataclass
from typing import Protocol

from vgpu_sim.gpud.model import InstanceUuid, MigInstance

# Beside the granted device memory a worker needs the interpreter, LLVM, compiled kernels and rings.
# Measured after the first kernel: 26 MiB anonymous under the JIT, 36 MiB under the interpreter. The
# rest is room for compiling large kernels, page tables and what the kernel itself charges; beyond
# it a worker is killed, which ends its own context alone.
BASE_OVERHEAD_BYTES = 64 << 20
CONTEXT_OVERHEAD_BYTES = 256 << 20

CPU_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class Isolation:
    """Whether slices are held to their shares by the kernel; if not, ``reason`` says why."""

    enforced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Share:
    """A slice's share of the node.

    ``memory_bytes`` is what it can be granted. ``sm_count`` of ``board_sm_count`` becomes the CPU
    weight; ``strict`` adds the hard quota.
    """

    memory_bytes: int
    sm_count: int
    board_sm_count: int
    cpu_count: int
    strict: bool

    @classmethod
    def of(cls, instance: MigInstance, memory_bytes: int, cpu_count: int, strict: bool) -> "Share":
        """Return an instance's share; it is granted ``memory_bytes`` or what its profile has."""
        return cls(
            memory_bytes=min(instance.profile.memory_bytes, memory_bytes),
            sm_count=instance.sm_count,
            board_sm_count=instance.gpu.board.sm_count,
            cpu_count=cpu_count,
            strict=strict,
        )

    def memory_limit_bytes(self, contexts: int) -> int:
        """Return the limit: the grant and the overhead of that many workers (at least one)."""
        overhead = BASE_OVERHEAD_BYTES + CONTEXT_OVERHEAD_BYTES * max(1, contexts)
        return self.memory_bytes + overhead

    def quota_us(self) -> int:
        """Return CPU time per CPU_PERIOD_US under strict isolation."""
        whole = self.cpu_count * CPU_PERIOD_US
        return max(1000, whole * self.sm_count // self.board_sm_count)


class SliceCgroups(Protocol):
    """One group per slice. Methods raise OSError where the kernel refuses."""

    @property
    def isolation(self) -> Isolation:
        """Return what is enforced."""

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        """Create the slice's group or bring its limits to this share and number of contexts."""

    def procs_files(self, uuid: InstanceUuid) -> tuple[str, ...]:
        """Return the files into which a worker writes its pid."""

    def processes(self, uuid: InstanceUuid) -> frozenset[int]:
        """Return the pids in the slice's group."""

    def shared_bytes(self, uuid: InstanceUuid) -> int:
        """Return the shared memory charged to the slice's group; 0 where it cannot be told."""

    def existing(self) -> frozenset[InstanceUuid]:
        """Return the slices that have a group, whoever made it."""

    def remove(self, uuid: InstanceUuid) -> None:
        """Remove a group without processes; a group that is not there is fine."""

    def remove_parent(self) -> None:
        """Remove what all slices' groups are in, unless one of them is still there."""
