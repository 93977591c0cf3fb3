"""Compilation that is the same on slices of all sizes.

Inductor takes the number of multiprocessors for its choice of split reductions, and the device's
name for the key of its cache. A slice has fewer multiprocessors than its GPU, and another name.
A kernel is right with either number.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch._inductor.codecache import CacheBase
from torch._inductor.runtime.hints import DeviceProperties

_MULTIPROCESSORS: Final = 132


@contextmanager
def pin() -> Iterator[None]:
    """Let Inductor compile for any slice of a compute capability. The caller holds the lock."""
    create = DeviceProperties.create  # keeps its own cache

    def create_pinned(device: Any) -> Any:
        return create(device)._replace(multi_processor_count=_MULTIPROCESSORS)

    system = dict(CacheBase.get_system())
    major, minor = torch.cuda.get_device_capability()
    name = f"Tessera sm_{major}{minor}"
    system["device"] = {"name": name}
    system["hash"] = hashlib.sha256(f"{name} {system['version']}".encode()).hexdigest()
    originals = DeviceProperties.__dict__["create"], CacheBase.__dict__["get_system"]
    DeviceProperties.create = create_pinned
    CacheBase.get_system = lambda: system
    try:
        yield
    finally:
        DeviceProperties.create, CacheBase.get_system = originals
