"""What a pool says of its clock: a condition where events measure, or have measured, modelled time.

Who reads a program's figures must be able to see that they are a prediction (ADR 91).
"""

from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpupool import Clock
from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.controllers.common.conditions import Verdict


def verdict(pool: Pool, modelled: int, gpus: int) -> Verdict | None:
    """Return the condition ModelledClock; None: it has never been anything but the nodes' time.

    ``modelled`` of the pool's ``gpus`` say in their status that their clock is modelled.
    """
    wanted = pool.spec.clock is Clock.MODELLED
    if wanted and gpus and modelled == gpus:
        return Verdict(
            True,
            Reason.MODELLED_CLOCK,
            f"CUDA events in its pods measure what {pool.spec.board}, or its slice, would take, as"
            " modelled; the time that passes on the nodes is another, and metrics are of that",
        )
    if wanted and gpus:
        late = f"on {gpus - modelled} of {gpus} GPUs CUDA events still measure the node's time"
        return Verdict(False, Reason.APPLYING, late)
    if modelled:
        late = f"on {modelled} of {gpus} GPUs CUDA events still measure modelled time"
        return Verdict(True, Reason.APPLYING, late)
    if any(c.type == ConditionType.MODELLED_CLOCK.value for c in pool.status.conditions):
        return Verdict(False, Reason.WALL_CLOCK, "CUDA events measure the nodes' time")
    return None
