"""Functions, variables and modules: the decoded content of a container."""

from collections.abc import Callable
from dataclasses import field

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.types import Space
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter. It has ``size`` bytes, at byte ``offset`` of the parameter block.

    ``pointer_space`` is set where the source declares a pointer (PTX ``.ptr``).
    """

    name: str
    offset: int
    size: int
    align: int
    pointer_space: Space | None = None


@dataclass(frozen=True, slots=True)
class PhysicalAllocation:
    """Where a kernel's registers are located on a machine with a physical register file.

    Occupancy, ``cuFuncGetAttribute`` and the cycle model use this allocation; the interpreter
    and the JIT ignore it. ``slots`` maps the index of a register to the register's first 32-bit
    slot in the file. The value -1 means that the register is never live.
    """

    slots: tuple[int, ...] = ()
    peak_registers: int = 0
    spill_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel. ``register_bits[i]`` is the width of register i: 16, 32 or 64.

    ``parameter_image`` names the module variable, if any, to which a launch copies the parameter
    block before the kernel begins, so that parameters have addresses.
    """

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    register_bits: tuple[int, ...]
    predicate_count: int
    code: tuple[Instruction, ...]
    lines: tuple[int, ...]  # PTX line of each instruction; 0 where there is none
    required_block: tuple[int, int, int] | None = None  # .reqntid
    maximum_block: tuple[int, int, int] | None = None  # .maxntid
    required_cluster: tuple[int, int, int] | None = None  # .reqnctapercluster; zeros: of any size
    counts_clusters: bool = False  # .blocksareclusters: a launch's grid is a number of clusters
    maximum_cluster: int = 0  # blocks, .maxclusterrank; 0: the device's limit
    shared_bytes: int = 0
    local_bytes: int = 0
    physical: PhysicalAllocation = field(default_factory=PhysicalAllocation)
    parameter_image: str = ""
    tensor_memory: bool = False  # blocks have tensor memory (``hal.compute.tensor_memory``)


@dataclass(frozen=True, slots=True)
class Relocation:
    """An address that is stored in a variable's initial data when the module is loaded. The address
    takes ``size`` bytes of the data, from byte ``offset`` on.

    The stored address is that of the variable called ``name``, plus ``addend``. Only the bits
    ``shift`` to ``shift + bits - 1`` of the address are stored.
    """

    offset: int
    size: int
    name: str
    addend: int = 0
    shift: int = 0
    bits: int = 64


@dataclass(frozen=True, slots=True)
class Variable:
    """A module-scope variable. All variables of a module are in one segment, in which this variable
    begins at byte ``offset``.
    """

    name: str
    space: Space
    align: int
    size: int
    offset: int
    initial: bytes = b""  # may be shorter than ``size``: the rest is zero
    relocations: tuple[Relocation, ...] = ()

    def contents(self, address_of: Callable[[str], int]) -> bytes:
        """Return the variable's initial bytes, with the addresses filled in. The variable may be
        longer; its remaining bytes are zero.
        """
        if not self.relocations:
            return self.initial
        end = max(relocation.offset + relocation.size for relocation in self.relocations)
        data = bytearray(self.initial.ljust(end, b"\0"))
        for patch in self.relocations:
            address = (address_of(patch.name) + patch.addend) & 0xFFFF_FFFF_FFFF_FFFF
            part = address >> patch.shift & ((1 << patch.bits) - 1)
            data[patch.offset : patch.offset + patch.size] = part.to_bytes(patch.size, "little")
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a source. ``line`` and ``column`` count from 1; 0 means the whole source.

    ``text`` is the source of the instruction or declaration, on one line.
    """

    line: int
    column: int
    message: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A kernel or a variable of the source that cannot be used yet, with the reasons."""

    name: str
    reasons: tuple[Diagnostic, ...]
    is_kernel: bool = True


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded or compiled module: the unit of ``cuModuleLoadData``.

    ``refused`` are the kernels and variables of the source that the module does not provide.
    """

    functions: tuple[Function, ...]
    variables: tuple[Variable, ...] = ()
    required_capability: tuple[int, int] = (5, 0)  # from the PTX ``.target``
    ptx_version: tuple[int, int] = (0, 0)
    source: str = ""  # the PTX source; empty for an assembled module
    refused: tuple[Refused, ...] = ()

    def function(self, name: str) -> Function:
        """Return the kernel called ``name``.

        Raises:
            KeyError: the module has no kernel of that name.
        """
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)

    def contents(self, segment_base: int) -> tuple[bytes, ...]:
        """Return the initial bytes of each variable for a segment at ``segment_base``."""
        offsets = {variable.name: variable.offset for variable in self.variables}
        return tuple(v.contents(lambda name: segment_base + offsets[name]) for v in self.variables)

    @property
    def segment_bytes(self) -> int:
        """The size in bytes of the segment that holds all variables."""
        return max((v.offset + v.size for v in self.variables), default=0)
