"""What a worker's sandbox reached, told honestly: gpud shows it."""

from dataclasses import asdict, dataclass


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

    def to_json(self) -> dict[str, bool]:
        """Return plain values for gpud's channel."""
        return asdict(self)
