"""Functions, variables and modules: what a container holds, decoded."""

from dataclasses import dataclass, field

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.types import Space


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: byte ``offset`` and ``size`` in the parameter block.

    ``pointer_space`` is set where the source says that it is a pointer (PTX ``.ptr``).
    """

    name: str
    offset: int
    size: int
    align: int
    pointer_space: Space | None = None


@dataclass(frozen=True, slots=True)
class PhysicalAllocation:
    """Where the registers would live on a machine with a real register file.

    Read by occupancy, ``cuFuncGetAttribute`` and the cycle model; ignored by interpreter and JIT.
    ``slots`` maps a register index to its first 32-bit slot (-1: never live).
    """

    slots: tuple[int, ...] = ()
    peak_registers: int = 0
    spill_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel. ``register_bits[i]`` is the width of register i: 16, 32 or 64."""

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    register_bits: tuple[int, ...]
    predicate_count: int
    code: tuple[Instruction, ...]
    lines: tuple[int, ...]  # PTX line of each word; 0 where there is none
    required_block: tuple[int, int, int] | None = None  # .reqntid
    maximum_block: tuple[int, int, int] | None = None  # .maxntid
    shared_bytes: int = 0
    local_bytes: int = 0
    physical: PhysicalAllocation = field(default_factory=PhysicalAllocation)


@dataclass(frozen=True, slots=True)
class Variable:
    """A module-scope variable. All of a module lie in one segment at ``offset`` bytes."""

    name: str
    space: Space
    align: int
    size: int
    offset: int
    initial: bytes = b""  # shorter than ``size``: the rest is zero


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded or compiled module: the unit of ``cuModuleLoadData``."""

    functions: tuple[Function, ...]
    variables: tuple[Variable, ...] = ()
    required_capability: tuple[int, int] = (5, 0)  # from the PTX ``.target``
    ptx_version: tuple[int, int] = (0, 0)
    source: str = ""  # the PTX it came from; empty when assembled

    def function(self, name: str) -> Function:
        """Return the kernel called ``name``.

        Raises:
            KeyError: when the module has none of that name.
        """
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)

    @property
    def segment_bytes(self) -> int:
        """Size of the segment that holds all variables."""
        return max((v.offset + v.size for v in self.variables), default=0)
