"""GPUs that follow no layout: each is one whole GPU with MIG off, as hardware is delivered.

Layouts have no finalizer: deleting one never hangs, and what it leaves behind is found here,
also when the operator was down meanwhile. The slices go as soon as nobody holds them, and then the
node makes the GPU whole.
"""

from gpu_operator.api.v1alpha1.gpu import MigMode, PlacedInstance
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.controllers.layouts import selection
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.render import gpu as gpu_render
from mig.geometry import WHOLE

_WHOLE = (PlacedInstance(profile=WHOLE, start=0),)


def reconcile(world: World, name: str) -> Outcome:
    """Make a GPU whole that follows no layout any more, or never did."""
    gpu = world.gpus.get(name)
    if gpu is None or (gpu.spec.layout is None and _is_somebodys(gpu)):
        return Outcome()
    if not selection.is_live(world, gpu):
        return Outcome()  # it is being released
    if ("MIGLayout", gpu.spec.layout) in world.broken:
        return Outcome()
    if name in selection.followed(world):
        return Outcome()  # that layout's reconciliation does what is needed
    document = gpu_render.instances(gpu.name, gpu.meta.uid, _WHOLE, layout=None)
    return Outcome((Apply(Manager.LAYOUT, document),))


def _is_somebodys(gpu: Gpu) -> bool:
    """Return whether a GPU without a layout is as it should be: whole, or as a person made it."""
    return bool(gpu.spec.instances) or gpu.spec.mig_mode is MigMode.ENABLED
