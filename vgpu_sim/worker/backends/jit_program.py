"""A container loaded by the JIT: its kernels, and the code compiled from them."""

import threading
from collections.abc import Callable
from dataclasses import field

from vgpu_sim.exec.jit import Loaded, NativeCode
from vgpu_sim.hal.compute.ports import NativeEntry
from vgpu_sim.isa import Function, Module, container, extract, sections
from vgpu_sim.isa.sections import MODULE_OWNER, Section
from vgpu_sim.isa.wire import decode_text
from vgpu_sim.records import dataclass

Block = tuple[int, int, int]
Variant = tuple[str, Block]


@dataclass(frozen=True, slots=True)
class Improvable:
    """A kernel variant for which better code can be compiled: the key of that code in the cache,
    the code that runs until then, and the function that gets the better code.
    """

    key: str
    first: NativeCode
    replace_code: Callable[[NativeEntry], None]


@dataclass(slots=True)
class Program:
    """A container that the JIT has loaded, decoded on first use. Several threads use it. The
    container is unloaded only while no thread uses it.
    """

    container: bytes
    module: Module | None = None
    entries: dict[Variant, NativeEntry] = field(default_factory=dict)
    making: dict[Variant, threading.Lock] = field(default_factory=dict)
    improvable: dict[Variant, Improvable] = field(default_factory=dict)
    _loaded: list[tuple[str, Loaded]] = field(default_factory=list)
    _kernels: extract.Kernels | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def container_of(self, name: str, *, named: bool = False) -> bytes:
        """Return a container that has only the kernel ``name``. For ``named``, see
        ``isa.extract.Kernels.container``.
        """
        with self._lock:
            if self._kernels is None:
                self._kernels = extract.Kernels(self.container)
            return self._kernels.container(name, named=named)

    def decode(self, name: str) -> tuple[Module, Function]:
        """Return the decoded module that contains the kernel ``name`` and all variables, and the
        decoded kernel.
        """
        if self.module is not None:
            return self.module, self.module.function(name)
        module = container.decode(self.container_of(name, named=True))
        return module, module.function(name)

    def source(self) -> str:
        """The PTX from which the container was compiled; empty if there is none."""
        if self.module is not None:
            return self.module.source
        return decode_text(sections.unpack(self.container)[Section.SOURCE, MODULE_OWNER])

    def keep(self, name: str, loaded: Loaded) -> NativeEntry:
        """Keep a kernel's code in memory for as long as the program is loaded; return the code's
        entry.
        """
        self._loaded.append((name, loaded))
        return NativeEntry(
            loaded.entry, loaded.groups, loaded.stack_bytes, loaded.counts, loaded.polls
        )

    def publish(self, variant: Variant, entry: NativeEntry) -> NativeEntry:
        """Make ``entry`` the current code of a kernel variant, unless ``entry`` is provisional and
        the variant already has code. Return the code that is then current.
        """
        with self._lock:
            if not entry.provisional or variant not in self.entries:
                self.entries[variant] = entry
            return self.entries[variant]

    def find(self, pc: int) -> tuple[str, tuple[int, ...]] | None:
        """Return the kernel whose code contains the address ``pc``, and the numbers of the
        instructions that may be at that address. Return None if no kernel's code contains it.
        """
        for name, loaded in list(self._loaded):
            if loaded.entry <= pc < loaded.end:
                return name, loaded.locate(pc)
        return None
