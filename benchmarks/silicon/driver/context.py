"""The primary context in which questions are answered, and the modules that they use."""

import functools
from dataclasses import dataclass

from benchmarks.silicon.driver import kernels
from benchmarks.silicon.driver.answers import Api, driver


@dataclass(frozen=True, slots=True)
class Rig:
    """The initialised driver with a current primary context."""

    api: Api
    context: int

    def function(self, name: str) -> int:
        """Return a kernel of the module, by name."""
        return _function(name)

    def cluster_kernel(self, name: str) -> int:
        """Return a kernel of the module of clusters."""
        return _function(name, True)


@functools.cache
def rig() -> Rig:
    """Initialise the driver and make device 0's primary context current."""
    api = driver()
    assert api.call("cuInit", 0)[0] == 0, "cuInit failed"
    context = api.make("cuDevicePrimaryCtxRetain", 0)
    assert context, "no primary context"
    assert api.call("cuCtxSetCurrent", context)[0] == 0
    api.primary = context
    return Rig(api, context)


@functools.cache
def module(has_clusters: bool = False) -> int:
    """Load one of the two modules in the primary context."""
    text = kernels.CLUSTERS if has_clusters else kernels.MODULE
    handle = rig().api.make("cuModuleLoadData", text.encode())
    assert handle, "the module does not load"
    return handle


@functools.cache
def _function(name: str, has_clusters: bool = False) -> int:
    handle = rig().api.make("cuModuleGetFunction", module(has_clusters), name.encode())
    assert handle, name
    return handle
