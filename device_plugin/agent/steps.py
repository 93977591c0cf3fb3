"""The pure decision: from a GPU's slices and its desired instances to what may be done now."""

from collections.abc import Collection
from dataclasses import dataclass

from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry, planner
from mig.errors import MigError


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do about one GPU.

    ``withdraw`` are slices that are not desired any more: they leave the kubelet's list at once and
    are destroyed (``destroy``) when nobody holds them. ``create`` has only instances whose place is
    free. ``problem`` says why the desired state cannot be reached, if so.
    """

    withdraw: tuple[MigSlice, ...] = ()
    destroy: tuple[MigSlice, ...] = ()
    create: tuple[geometry.Instance, ...] = ()
    problem: str = ""

    @property
    def settled(self) -> bool:
        """Return whether the GPU is as desired."""
        return not (self.withdraw or self.create or self.problem)


def plan_steps(
    gpu: Gpu, desired: Collection[tuple[str, int]], releasable: Collection[str]
) -> Steps:
    """Decide for one GPU. ``releasable`` are UUIDs of slices that may be destroyed right now."""
    try:
        wanted = [geometry.Instance(gpu.board.profile(name), start) for name, start in desired]
        planner.check(gpu.board, wanted)
    except MigError as err:
        return Steps(problem=str(err))
    have = {s.instance: s for s in gpu.slices}
    withdraw = tuple(s for instance, s in have.items() if instance not in wanted)
    destroy = tuple(s for s in withdraw if s.uuid in releasable)
    remaining = [s.instance for s in gpu.slices if s not in destroy]
    create: list[geometry.Instance] = []
    for instance in sorted(set(wanted) - set(have), key=lambda i: i.start):
        if not planner.violations(gpu.board, [*remaining, *create, instance]):
            create.append(instance)
    return Steps(withdraw=withdraw, destroy=destroy, create=tuple(create))
