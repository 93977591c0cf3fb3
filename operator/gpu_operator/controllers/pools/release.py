"""Releases a GPU object: its instances are removed first, then the object is deleted."""

from collections.abc import Iterable

from gpu_operator.api.v1alpha1 import FINALIZER
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.kube.actions import Action, Apply, Delete, DropFinalizer, Manager
from gpu_operator.render import gpu as gpu_render


def release(gpu: Gpu, *, node_gone: bool) -> Iterable[Action]:
    """Yield the actions of the next step in releasing a GPU.

    Slices that pods hold stay until the pods end.
    """
    if not node_gone:
        if gpu.spec.instances:  # written without a layout, since another one may have set them
            yield Apply(
                Manager.LAYOUT, gpu_render.instances(gpu.name, gpu.meta.uid, (), layout=None)
            )
            return
        if not _is_empty(gpu):
            return
    if FINALIZER in gpu.meta.finalizers:
        meta = gpu.meta
        yield DropFinalizer("GPU", gpu.name, meta.uid, meta.finalizers.index(FINALIZER))
    if not gpu.meta.deleting:
        yield Delete("GPU", gpu.name)


def _is_empty(gpu: Gpu) -> bool:
    """Return whether the GPU has no slice left. An agent that never reported has made none."""
    status = gpu.status
    if not status.conditions:
        return True
    current = gpu.meta.deleting or status.observed_generation >= gpu.meta.generation
    return not (status.slices or status.claims) and current
