"""Strategy ``mixed``: one extended resource for each MIG profile."""

from collections.abc import Iterable

from device_plugin.inventory.model import MigSlice


def resource_name(prefix: str, mig_slice: MigSlice) -> str:
    """Return the extended resource a slice is offered as, e.g. gpu.tessera.dev/mig-1g.10gb."""
    return f"{prefix}/{mig_slice.instance.profile.resource_name}"


def by_resource(prefix: str, slices: Iterable[MigSlice]) -> dict[str, tuple[MigSlice, ...]]:
    """Group slices by the resource they are offered as, order kept."""
    grouped: dict[str, list[MigSlice]] = {}
    for mig_slice in slices:
        grouped.setdefault(resource_name(prefix, mig_slice), []).append(mig_slice)
    return {name: tuple(group) for name, group in grouped.items()}
