"""Object code that LLVM made of a text, in this run of the tests or in an earlier one.

The key is the text itself, with all else that LLVM's output depends on: the tests still generate
each text with the compiler of this checkout, and an object is reused only if not a character of
the text differs. LLVM takes a third to a half of the CPU time of the conformance tests.
"""

import functools
import hashlib
import importlib.metadata
from pathlib import Path

from support.kept.store import Store, key_of
from vgpu_sim.exec.jit.target import llvm

_STORE = Store("llvm")


def object_code(text: str, tier: int, store: Store = _STORE) -> bytes:
    """Return ``llvm.object_code`` of the same arguments."""
    key = key_of(surroundings(), repr((llvm.target(), tier)).encode(), text.encode())
    found = store.get(key)
    if found is None:
        found = llvm.object_code(text, tier)
        store.put(key, found)
    return found


@functools.cache
def surroundings() -> bytes:
    """Return the version of LLVM, and a digest of our module that calls it: options and passes."""
    calls = hashlib.sha256(Path(llvm.__file__).read_bytes()).hexdigest()
    return f"{llvm.version()} {importlib.metadata.version('llvmlite')} {calls}".encode()
