"""Plans, for one GPU, the steps from its existing slices towards its desired instances. Pure."""

from collections.abc import Collection, Sequence

from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry, planner
from mig.errors import MigError
from mig.spec import Place
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps for one GPU towards its desired instances.

    ``withdraw``: slices that are no longer desired. ``listed``: those of ``withdraw`` that are
    still on the kubelet's list. ``destroy``: those of ``withdraw`` that may be destroyed now,
    because they have left the list and have no holder.

    ``create``: missing instances whose place is free. ``claimed``: slices of ResourceClaims at
    places of desired instances; they stay until their claims are released. ``renamed``: slices
    that are to be offered under another resource, and are still listed under the former one or not
    listed yet. ``problem``: the reason why the desired state cannot be reached, or empty.
    """

    withdraw: tuple[MigSlice, ...] = ()
    destroy: tuple[MigSlice, ...] = ()
    create: tuple[geometry.Instance, ...] = ()
    claimed: tuple[MigSlice, ...] = ()
    problem: str = ""
    listed: tuple[MigSlice, ...] = ()
    renamed: tuple[MigSlice, ...] = ()

    @property
    def settled(self) -> bool:
        """Return whether the GPU has its desired instances, and nothing is left to do."""
        open_ = self.withdraw or self.create or self.claimed or self.renamed
        return not (open_ or self.problem)


def plan_steps(gpu: Gpu, desired: Collection[Place], releasable: Collection[str]) -> Steps:
    """Plan the steps for one GPU. ``releasable`` are UUIDs of slices that may be destroyed now."""
    try:
        desired_instances = [gpu.board.instance(*place) for place in desired]
        planner.check(gpu.board, desired_instances)
    except MigError as err:
        return Steps(problem=str(err))
    have = {s.instance: s for s in gpu.unclaimed}
    withdraw = tuple(s for instance, s in have.items() if instance not in desired_instances)
    destroy = tuple(s for s in withdraw if s.uuid in releasable)
    remaining = [s.instance for s in gpu.slices if s not in destroy]
    create: list[geometry.Instance] = []
    for instance in sorted(set(desired_instances) - set(have), key=planner.place_order):
        if not planner.violations(gpu.board, [*remaining, *create, instance]):
            create.append(instance)
    claimed = _in_the_way(gpu, desired_instances)
    return Steps(withdraw=withdraw, destroy=destroy, create=tuple(create), claimed=claimed)


def _in_the_way(gpu: Gpu, desired_instances: Sequence[geometry.Instance]) -> tuple[MigSlice, ...]:
    """Return the slices of claims that prevent the wanted instances from existing."""
    claimed = gpu.claimed
    if not planner.violations(gpu.board, [*desired_instances, *(s.instance for s in claimed)]):
        return ()
    overlapping = tuple(
        s
        for s in claimed
        if any(
            planner.violations(gpu.board, [instance, s.instance]) for instance in desired_instances
        )
    )
    return overlapping or claimed  # each pair fits together, but not all of them
