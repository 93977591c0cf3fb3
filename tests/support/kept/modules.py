"""Modules that the compiler made of PTX, in this run of the tests or in an earlier one.

The key is the text, the target, and the sources of the compiler with all below it. As with
``kernels``, a test with the fixture ``monkeypatch`` stores and reads nothing.
"""

from collections.abc import Callable

from support.kept import kernels
from support.kept.store import Store, key_of
from vgpu_sim.isa import Module, container

_STORE = Store("modules")


def compile_kept(
    source: str | bytes,
    capability: tuple[int, int],
    make: Callable[[], Module],
    store: Store = _STORE,
) -> Module:
    """Return what ``make`` returned for the same text and target."""
    if not kernels.are_stored():
        return make()
    text = source.encode() if isinstance(source, str) else source
    key = key_of(kernels.sources("compiler"), repr(capability).encode(), text)
    found = store.get(key)
    if found is not None:
        return container.decode(found)
    module = make()
    encoded = container.encode(module)
    if container.decode(encoded) == module:
        store.put(key, encoded)
    return module
