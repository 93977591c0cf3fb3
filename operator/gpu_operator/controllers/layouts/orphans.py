"""GPUs that follow no layout: each becomes one whole GPU with MIG off, as hardware is delivered.

Layouts have no finalizer, so deleting one never hangs. The operator finds its GPUs here, even if
the operator was down when the layout was deleted. Slices are removed once no pod holds them;
then the node makes the GPU whole.
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
    """Turn MIG off on a GPU that follows no layout, so that the GPU is undivided again.

    A GPU that a user has configured without a layout stays as it is.
    """
    gpu = world.gpus.get(name)
    if gpu is None or (gpu.spec.layout is None and _has_instances(gpu)):
        return Outcome()
    if not selection.is_live(world, gpu):
        return Outcome()  # it is being released
    if ("MIGLayout", gpu.spec.layout) in world.broken:
        return Outcome()
    if name in selection.layouts_by_gpu(world):
        return Outcome()  # the layout's reconciliation handles it
    document = gpu_render.instances(gpu.name, gpu.meta.uid, _WHOLE, layout=None)
    return Outcome((Apply(Manager.LAYOUT, document),))


def _has_instances(gpu: Gpu) -> bool:
    """Return whether a GPU without a layout is already whole, or was configured by a user."""
    return bool(gpu.spec.instances) or gpu.spec.mig_mode is MigMode.ENABLED
