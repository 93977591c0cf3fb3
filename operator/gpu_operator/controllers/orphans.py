"""GPUs whose layout is gone: their slices go too, as soon as nobody holds them.

Layouts have no finalizer: deleting one never hangs, and what it leaves behind is found here,
also when the operator was down meanwhile.
"""

from gpu_operator.controllers import selection
from gpu_operator.controllers.world import Outcome, World
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.render import gpu as gpu_render


def reconcile(world: World, name: str) -> Outcome:
    """Take the instances of a GPU away that follows no layout any more."""
    gpu = world.gpus.get(name)
    if gpu is None or gpu.spec.layout is None:
        return Outcome()
    if name not in selection.live_gpus(world):
        return Outcome()  # it is being released
    if ("MIGLayout", gpu.spec.layout) in world.broken:
        return Outcome()
    if name in selection.followed(world):
        return Outcome()  # that layout's reconciliation does what is needed
    document = gpu_render.instances(gpu.name, gpu.meta.uid, (), layout=None)
    return Outcome((Apply(Manager.LAYOUT, document),))
