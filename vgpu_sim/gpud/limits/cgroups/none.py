"""The fallback if there are no control groups. Only gpud's accounting limits slices, and the
isolation is reported as not enforced.
"""

from vgpu_sim.gpud.limits.cgroups.base import Isolation, Share
from vgpu_sim.gpud.model import InstanceUuid
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class NoCgroups:
    """The implementation of ``SliceCgroups`` for a node without usable control groups. It enforces
    no limits. ``reason`` states why, and is shown wherever the isolation is reported.
    """

    reason: str

    @property
    def isolation(self) -> Isolation:
        """Return an ``Isolation`` that states that limits are not enforced, with the reason."""
        return Isolation(False, self.reason)

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        """Do nothing, because there are no groups."""

    def procs_files(self, uuid: InstanceUuid) -> tuple[str, ...]:
        """Return an empty tuple: there is no group to join."""
        del uuid
        return ()

    def processes(self, uuid: InstanceUuid) -> frozenset[int]:
        """Return an empty set of pids, because there are no groups."""
        del uuid
        return frozenset()

    def shared_bytes(self, uuid: InstanceUuid) -> int:
        """Return 0, because nothing is measured without groups."""
        del uuid
        return 0

    def existing(self) -> frozenset[InstanceUuid]:
        """Return an empty set of slices, because there are no groups."""
        return frozenset()

    def remove(self, uuid: InstanceUuid) -> None:
        """Do nothing, because there are no groups."""

    def remove_parent(self) -> None:
        """Do nothing, because there is no parent group."""
