"""Where no groups can be made: bookkeeping alone, and said so."""

from dataclasses import dataclass

from vgpu_sim.gpud.limits.cgroups.base import Isolation, Share
from vgpu_sim.gpud.model import InstanceUuid


@dataclass(frozen=True, slots=True)
class NoCgroups:
    """Enforces nothing; ``reason`` is shown wherever isolation is."""

    reason: str

    @property
    def isolation(self) -> Isolation:
        """Not enforced."""
        return Isolation(False, self.reason)

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        """Do nothing."""

    def procs_files(self, uuid: InstanceUuid) -> tuple[str, ...]:
        """Return nothing to join."""
        del uuid
        return ()

    def processes(self, uuid: InstanceUuid) -> frozenset[int]:
        """Return none."""
        del uuid
        return frozenset()

    def shared_bytes(self, uuid: InstanceUuid) -> int:
        """Return 0: nothing is measured."""
        del uuid
        return 0

    def existing(self) -> frozenset[InstanceUuid]:
        """Return none."""
        return frozenset()

    def remove(self, uuid: InstanceUuid) -> None:
        """Do nothing."""

    def remove_parent(self) -> None:
        """Do nothing."""
