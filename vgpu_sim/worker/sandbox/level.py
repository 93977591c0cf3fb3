"""The level that a worker's sandbox reached, which gpud reports."""

from dataclasses import asdict

from vgpu_sim.hal.compute import spawn
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """Which mechanisms of a worker's sandbox are active. ``cache`` is set if the object cache is
    reachable from inside.
    """

    own_user: bool = False
    capabilities_dropped: bool = False
    no_new_privileges: bool = False
    namespaces: bool = False
    landlock: bool = False
    seccomp: bool = False
    cache: bool = True

    @property
    def confined(self) -> bool:
        """Return whether the active mechanisms suffice to confine a tenant
        (``hal.compute.spawn.is_confined``).
        """
        return spawn.is_confined(self.to_json())

    def to_json(self) -> dict[str, bool]:
        """Return the level as a dictionary for gpud's channel."""
        return asdict(self)
