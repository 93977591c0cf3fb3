"""What a worker's sandbox reached, told honestly: gpud shows it."""

from dataclasses import asdict, dataclass

from vgpu_sim.hal.compute import spawn


@dataclass(frozen=True, slots=True)
class Level:
    """Which walls stand. ``cache``: the object cache can still be reached from inside."""

    own_user: bool = False
    capabilities_dropped: bool = False
    no_new_privileges: bool = False
    namespaces: bool = False
    landlock: bool = False
    seccomp: bool = False
    cache: bool = True

    @property
    def confined(self) -> bool:
        """Return whether that is enough to hold a tenant (``hal.compute.spawn.is_confined``)."""
        return spawn.is_confined(self.to_json())

    def to_json(self) -> dict[str, bool]:
        """Return plain values for gpud's channel."""
        return asdict(self)
