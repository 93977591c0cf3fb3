"""The instruction set: definitions, binary container, assembler and disassembler. No behaviour.

Executors and the compiler import names from here.
"""

from vgpu_sim.isa.instruction import (
    Destination,
    Guard,
    Instruction,
    Literal,
    Operand,
    Predicate,
    Register,
    Symbol,
)
from vgpu_sim.isa.module import Function, Module, Parameter, PhysicalAllocation, Variable
from vgpu_sim.isa.opcodes import Family, Op
from vgpu_sim.isa.table import EFFECTS, is_visible, reads_memory
from vgpu_sim.isa.types import (
    BoolOp,
    Compare,
    DataType,
    MulMode,
    Rounding,
    Space,
    SpecialRegister,
)

__all__ = [
    "EFFECTS",
    "BoolOp",
    "Compare",
    "DataType",
    "Destination",
    "Family",
    "Function",
    "Guard",
    "Instruction",
    "Literal",
    "Module",
    "MulMode",
    "Op",
    "Operand",
    "Parameter",
    "PhysicalAllocation",
    "Predicate",
    "Register",
    "Rounding",
    "Space",
    "SpecialRegister",
    "Symbol",
    "Variable",
    "is_visible",
    "reads_memory",
]
