"""gpud's interface to control groups, independent of their version."""

from typing import Protocol

from vgpu_sim.gpud.model import InstanceUuid, MigInstance
from vgpu_sim.records import dataclass

# In addition to the granted device memory a worker needs the interpreter, LLVM, compiled kernels
# and rings. Measured after the first kernel: 26 MiB anonymous under the JIT, 36 MiB under the
# interpreter. The rest is room for compiling large kernels, page tables and what the kernel itself
# charges; a worker that exceeds it is killed, which ends only its own context.
BASE_OVERHEAD_BYTES = 64 << 20
CONTEXT_OVERHEAD_BYTES = 256 << 20

CPU_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class Isolation:
    """Whether the kernel limits slices to their shares. If the kernel does not, ``reason`` says
    why.
    """

    enforced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Share:
    """A slice's share of the node.

    ``memory_bytes`` is the memory that gpud can grant to the slice. The ratio of ``sm_count`` to
    ``board_sm_count`` determines the slice's CPU weight; ``strict`` adds a hard limit on the
    slice's CPU time.
    """

    memory_bytes: int
    sm_count: int
    board_sm_count: int
    cpu_count: int
    strict: bool

    @classmethod
    def of(cls, instance: MigInstance, memory_bytes: int, cpu_count: int, strict: bool) -> "Share":
        """Return an instance's share. Its memory is ``memory_bytes``, but at most the memory of the
        instance's profile.
        """
        return cls(
            memory_bytes=min(instance.profile.memory_bytes, memory_bytes),
            sm_count=instance.sm_count,
            board_sm_count=instance.gpu.board.sm_count,
            cpu_count=cpu_count,
            strict=strict,
        )

    def memory_limit_bytes(self, contexts: int) -> int:
        """Return the memory limit of the slice's group in bytes: the memory of the share plus an
        overhead. The overhead includes one worker for each of the ``contexts``, and at least one
        worker.
        """
        overhead = BASE_OVERHEAD_BYTES + CONTEXT_OVERHEAD_BYTES * max(1, contexts)
        return self.memory_bytes + overhead

    def quota_us(self) -> int:
        """Return the CPU time in microseconds that the slice may use in each CPU_PERIOD_US under
        strict isolation.
        """
        whole = self.cpu_count * CPU_PERIOD_US
        return max(1000, whole * self.sm_count // self.board_sm_count)


class SliceCgroups(Protocol):
    """The control groups of the slices, one per slice. Methods raise OSError where the kernel
    refuses.
    """

    @property
    def isolation(self) -> Isolation:
        """Whether the kernel enforces the slices' limits."""

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        """Create the slice's group, or update its limits to this share and number of contexts."""

    def procs_files(self, uuid: InstanceUuid) -> tuple[str, ...]:
        """Return the files into which a worker writes its pid to join the slice's group."""

    def processes(self, uuid: InstanceUuid) -> frozenset[int]:
        """Return the pids in the slice's group."""

    def shared_bytes(self, uuid: InstanceUuid) -> int:
        """Return the shared memory charged to the slice's group; 0 if that is unknown."""

    def existing(self) -> frozenset[InstanceUuid]:
        """Return the slices that have a group, including groups of an earlier gpud."""

    def remove(self, uuid: InstanceUuid) -> None:
        """Remove a group without processes; do nothing if there is no such group."""

    def remove_parent(self) -> None:
        """Remove the parent of all slices' groups, unless a group is left."""
