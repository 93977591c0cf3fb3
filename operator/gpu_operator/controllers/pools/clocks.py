"""The condition ModelledClock of a pool.

Such a pool's CUDA events measure modelled time, or have measured it. The condition informs
readers of a program's figures that these are predictions (ADR 91).
"""

from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpupool import Clock
from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.controllers.common.conditions import Verdict


def clock_verdict(pool: Pool, modelled: int, gpus: int) -> Verdict | None:
    """Return the condition ModelledClock; None if the pool has never had a modelled clock.

    ``gpus`` is the number of GPUs in the pool. ``modelled`` is the number of those that report a
    modelled clock.
    """
    is_modelled = pool.spec.clock is Clock.MODELLED
    if is_modelled and gpus and modelled == gpus:
        return Verdict(
            True,
            Reason.MODELLED_CLOCK,
            f"CUDA events in its pods measure the modelled time of {pool.spec.board}, or of its "
            "slice;"
            " it differs from the time that passes on the nodes, which metrics use",
        )
    if is_modelled and gpus:
        late = f"on {gpus - modelled} of {gpus} GPUs CUDA events still measure the node's time"
        return Verdict(False, Reason.APPLYING, late)
    if modelled:
        late = f"on {modelled} of {gpus} GPUs CUDA events still measure modelled time"
        return Verdict(True, Reason.APPLYING, late)
    if any(c.type == ConditionType.MODELLED_CLOCK.value for c in pool.status.conditions):
        return Verdict(False, Reason.WALL_CLOCK, "CUDA events measure the nodes' time")
    return None
