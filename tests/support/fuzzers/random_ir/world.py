"""Memory for one program's kernel, and its launch on the interpreter and as native code."""

import numpy as np

from support.execution import native_launch
from support.fuzzers.fuzzing import child
from support.fuzzers.random_ir.backends import UNWRITTEN
from support.fuzzers.random_ir.programs import OUT_WORDS, Program
from vgpu_sim.exec import interp, jit
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

_PAGE = 4096
_CPU_SECONDS = 60


class World:
    """Memory with output, input and the module's variables, at the same addresses for both."""

    def __init__(self, program: Program, module: Module) -> None:
        self._program, self._module, self._function = program, module, module.functions[0]
        self.aperture = native_launch.Aperture()
        blank = bytes([UNWRITTEN]) * (program.rows * OUT_WORDS * 8)
        variables = bytes(-(-max(module.segment_bytes, 1) // _PAGE) * _PAGE)
        self._initial = [blank, program.inputs().tobytes(), variables]
        self._buffers = [self.aperture.allocate(data) for data in self._initial]
        out, read, self._segment = (buffer.address for buffer in self._buffers)
        contents = bytearray(variables)
        found = module.contents(self._segment)
        for variable, data in zip(module.variables, found, strict=True):
            contents[variable.offset : variable.offset + len(data)] = data
        self._initial[2] = bytes(contents)
        self._parameters = native_launch.pack(
            self._function.parameters, self._function.parameter_bytes, [out, read]
        )

    def close(self) -> None:
        self.aperture.close()

    def interpret(self) -> np.ndarray:
        """Return the words that threads write on the interpreter. Raises what the interpreter
        raises.
        """
        base, end = self._buffers[0].address, self._buffers[2].address + len(self._initial[2])
        data = bytearray(end - base)  # the gaps are zeros here
        for buffer, initial in zip(self._buffers, self._initial, strict=True):
            data[buffer.address - base : buffer.address - base + len(initial)] = initial
        memory = interp.BufferMemory(base, data)
        grid, block = (self._program.blocks, 1, 1), self._program.block
        interp.run(
            self._module, self._function, grid, block, self._parameters, memory, self._segment
        )
        return _words(bytes(data[: len(self._initial[0])]))

    def execute(self, loaded: jit.Loaded) -> np.ndarray | str:
        """Return the words that native code writes in a child, or a description of how it
        failed.
        """
        for buffer, initial in zip(self._buffers, self._initial, strict=True):
            buffer.view[:] = np.frombuffer(initial, np.uint8)
        image = self._function.parameter_image
        for variable in self._module.variables:
            if image and variable.name == image:
                block = np.frombuffer(self._parameters, np.uint8)
                self._buffers[2].view[variable.offset : variable.offset + len(block)] = block
        launch = native_launch.context(
            self.aperture,
            (self._program.blocks, 1, 1),
            self._program.block,
            self._segment,
            local_bytes=local_bytes(self._function),
        )
        ended = child.run(
            loaded,
            launch,
            self._parameters,
            [(0, self._program.blocks)],
            self._function.shared_bytes,
            _CPU_SECONDS,
        )
        if ended.status or ended.signal:
            return f"{ended}"
        return _words(bytes(self._buffers[0].view))


def _words(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint64)
