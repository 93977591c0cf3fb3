"""A kernel with buffers of its own, whose launches run in the interpreter and are predicted."""

import struct

import numpy as np

from vgpu_sim import compiler
from vgpu_sim.exec import interp
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.isa import container
from vgpu_sim.perf.kernels import Chip
from vgpu_sim.worker.modelling.costs import Cost, Costs
from vgpu_sim.worker.modelling.weights import weigh
from vgpu_sim.worker.observing.counting import instrument

BASE = 0x2000_0000_0000
_SEGMENT = 1 << 16
_GAP = 1 << 12  # not allocated, between buffers


class LaunchedKernel:
    """The only kernel of a PTX text, and buffers of the given sizes in bytes."""

    def __init__(self, chip: Chip, text: str, *sizes: int) -> None:
        self._module = compiler.compile_ptx(text, capability=(9, 0))
        (function,) = self._module.functions
        self._name = function.name
        self._running, _ = instrument(self._module, weigh)
        self._memory = bytearray(_SEGMENT)
        self.extents = [(BASE, BASE + _SEGMENT)]
        self.buffers: list[int] = []
        for size in sizes:
            self.buffers.append(BASE + len(self._memory))
            self.extents.append((self.buffers[-1], self.buffers[-1] + size))
            self._memory += bytes(-(-size // _GAP) * _GAP + _GAP)
        self._costs = Costs(
            chip, lambda: BufferMemory(BASE, self._memory), lambda: self.extents, self._place_of
        )
        self._costs.record_load({self._name: 1}, container.encode(self._module), BASE)

    def _place_of(self, address: int) -> int | None:
        places = [at for at, (begin, end) in enumerate(self.extents) if begin <= address < end]
        return places[0] if places else None

    def launch(
        self, blocks: int, threads: int, *numbers: int, order: list[int] | None = None
    ) -> Cost:
        """Run a launch with the buffers and 32-bit numbers as arguments; return its cost. Blocks
        run in the given order of their indices, one after another, or together if it is None.
        """
        parameters = struct.pack(f"<{len(self.buffers)}Q", *self.buffers)
        parameters += struct.pack(f"<{len(numbers)}I", *numbers)
        launch = Launch(self._name, (blocks, 1, 1), (threads, 1, 1), parameters, 0)
        begun = self._costs.begin(1, launch, alone=True)
        self._run(launch, order)
        return self._costs.end(begun)

    def _run(self, launch: Launch, order: list[int] | None) -> None:
        memory = BufferMemory(BASE, self._memory)
        function = self._running.function(self._name)
        if order is None:
            interp.run(
                self._running, function, launch.grid, launch.block, launch.parameters, memory, BASE
            )
            return
        checked = interp.launch.InterpretedLaunch(
            self._running,
            function,
            launch.grid,
            launch.block,
            launch.parameters,
            memory,
            BASE,
            launch.shared_bytes,
        )
        checked.place_parameters()
        with np.errstate(all="ignore"):
            for block in order:
                resident = interp.cta.ResidentBlocks(checked, [block], 1)
                while not resident.done:
                    resident.run_round()

    def clear(self, buffer: int) -> None:
        """Fill a buffer with zeros."""
        begin, end = self.extents[buffer + 1]
        self._memory[begin - BASE : end - BASE] = bytes(end - begin)
