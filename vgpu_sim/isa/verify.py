"""Checks whether the instruction set allows a function.

Encoder, decoder, assembler and interpreter all use this check, so that they accept the same
functions.
"""

import math
from collections.abc import Collection, Iterator
from typing import Final

from vgpu_sim.hal.compute.limits import (
    MAX_CLUSTER_BLOCKS,
    MAX_LOCAL_BYTES_PER_THREAD,
    STACK_BYTES_PER_THREAD,
)
from vgpu_sim.isa.errors import InvalidFunction
from vgpu_sim.isa.module import Function, Module, Parameter, Refused, Relocation, Variable
from vgpu_sim.isa.rules import instruction_errors
from vgpu_sim.isa.table import EFFECTS, has_stack
from vgpu_sim.isa.types import Space

MAXIMUM_REGISTERS: Final = 0x8000
MAXIMUM_PREDICATES: Final = 0x7FFF  # index 0x7fff means "always" in a guard
MAXIMUM_WORDS: Final = 1 << 20  # per function; a decoded instruction takes about half a kilobyte
MAXIMUM_MODULE_WORDS: Final = 1 << 22
MAXIMUM_FUNCTIONS: Final = 1 << 15  # per module
MAXIMUM_PARAMETER_BYTES: Final = 32764  # PTX ISA, "Kernel Function Parameters"
MAXIMUM_SEGMENT_BYTES: Final = 1 << 40
MAXIMUM_REASONS: Final = 256  # per refused kernel or variable
_U32 = 1 << 32


def check_module(module: Module) -> None:
    """Check that a module, with all its functions and variables, is valid.

    Raises:
        InvalidFunction: an object is invalid; the error's ``function`` is the object's name.
    """
    names = [function.name for function in module.functions]
    names += [variable.name for variable in module.variables]
    _check_names(names + [refused.name for refused in module.refused])
    for refused in module.refused:
        _check_refused(refused)
    variables = frozenset(variable.name for variable in module.variables)
    for variable in module.variables:
        _check_variable(variable)
        for relocation in variable.relocations:
            _check_relocation(relocation, variable, variables)
    versions = (*module.required_capability, *module.ptx_version)
    if not all(0 <= number < 1 << 16 for number in versions):
        raise InvalidFunction("module", None, f"version numbers {versions} are out of range")
    if len(module.functions) > MAXIMUM_FUNCTIONS:
        message = f"{len(module.functions)} functions, not up to {MAXIMUM_FUNCTIONS}"
        raise InvalidFunction("module", None, message)
    words = sum(len(function.code) for function in module.functions)
    if words > MAXIMUM_MODULE_WORDS:
        raise InvalidFunction("module", None, f"{words} words, not up to {MAXIMUM_MODULE_WORDS}")
    sizes = {variable.name: variable.size for variable in module.variables}
    for function in module.functions:
        image = function.parameter_image
        if image and sizes.get(image, -1) < function.parameter_bytes:
            raise InvalidFunction(function.name, None, f"{image} has no room for the parameters")
        check_function(function, variables)


def check_function(function: Function, variables: Collection[str]) -> None:
    """Check that a function is valid; it may refer to the named module variables.

    Raises:
        InvalidFunction: the function is invalid; this is the first error.
    """
    reason = next(_frame_errors(function), None)
    if reason is not None:
        raise InvalidFunction(function.name, None, reason)
    for word, instruction in enumerate(function.code):
        reason = next(instruction_errors(instruction, function, variables), None)
        if reason is not None:
            raise InvalidFunction(function.name, word, reason)
    last = function.code[-1]
    if not EFFECTS[last.op].leaves or last.guard is not None:
        reason = "the last word must be an unguarded BRA, RET or TRAP"
        raise InvalidFunction(function.name, len(function.code) - 1, reason)


def _frame_errors(function: Function) -> Iterator[str]:
    if not 0 < len(function.code) <= MAXIMUM_WORDS:
        yield f"{len(function.code)} words of code, not 1 to {MAXIMUM_WORDS}"
    if len(function.lines) != len(function.code):
        yield f"{len(function.lines)} lines for {len(function.code)} words"
    if not all(0 <= line < _U32 for line in function.lines):
        yield "a line number does not fit 32 bits"
    if not 0 <= function.parameter_bytes <= MAXIMUM_PARAMETER_BYTES:
        yield f"{function.parameter_bytes} bytes of parameters"
    for parameter in function.parameters:
        yield from _parameter_errors(parameter, function.parameter_bytes)
    for block in (function.required_block, function.maximum_block):
        if block is not None and not all(0 < extent < _U32 for extent in block):
            yield f"{block} is not a block"
    yield from _cluster_errors(function)
    if not 0 <= function.shared_bytes < _U32:
        yield "shared bytes must fit 32 bits"
    stack = STACK_BYTES_PER_THREAD if has_stack(function) else 0
    if not 0 <= function.local_bytes <= MAX_LOCAL_BYTES_PER_THREAD - stack:
        yield f"{function.local_bytes} bytes of local memory"
    yield from _register_file_errors(function)


def _cluster_errors(function: Function) -> Iterator[str]:
    cluster = function.required_cluster
    fits = cluster is None or (min(cluster) > 0 and math.prod(cluster) <= MAX_CLUSTER_BLOCKS)
    if not fits and cluster != (0, 0, 0):
        yield f"{cluster} is not a cluster of at most {MAX_CLUSTER_BLOCKS} blocks"
    if function.counts_clusters and (function.required_block is None or not any(cluster or ())):
        yield "a grid of clusters needs the size of a block and of a cluster"
    if not 0 <= function.maximum_cluster < _U32:
        yield f"a cluster of at most {function.maximum_cluster} blocks"


def _register_file_errors(function: Function) -> Iterator[str]:
    registers = len(function.register_bits)
    if registers > MAXIMUM_REGISTERS:
        yield f"{registers} registers are more than {MAXIMUM_REGISTERS}"
    if not set(function.register_bits) <= {16, 32, 64}:
        yield "a register has 16, 32 or 64 bits"
    if not 0 <= function.predicate_count <= MAXIMUM_PREDICATES:
        yield f"{function.predicate_count} predicates, not 0 to {MAXIMUM_PREDICATES}"
    physical = function.physical
    if len(physical.slots) not in (0, registers):
        yield f"{len(physical.slots)} slots for {registers} registers"
    if not all(-1 <= slot < 1 << 31 for slot in physical.slots):
        yield "a slot is out of range"
    if not (0 <= physical.peak_registers < _U32 and 0 <= physical.spill_bytes < _U32):
        yield "peak registers and spill bytes must fit 32 bits"


def _parameter_errors(parameter: Parameter, parameter_bytes: int) -> Iterator[str]:
    name = parameter.name
    if parameter.offset < 0 or parameter.size < 1:
        yield f"parameter {name} has offset {parameter.offset}, size {parameter.size}"
    if parameter.offset + parameter.size > parameter_bytes:
        yield f"parameter {name} ends outside of {parameter_bytes} bytes"
    if not _is_alignment(parameter.align):
        yield f"parameter {name} has alignment {parameter.align}"


def _check_variable(variable: Variable) -> None:
    reason = None
    if variable.space not in (Space.GLOBAL, Space.CONST):
        reason = f"a variable in {variable.space.name.lower()} space has no place in the segment"
    elif not _is_alignment(variable.align):
        reason = f"alignment {variable.align}"
    elif min(variable.size, variable.offset) < 0:
        reason = f"size {variable.size}, offset {variable.offset}"
    elif variable.offset + variable.size > MAXIMUM_SEGMENT_BYTES:
        reason = f"ends after {MAXIMUM_SEGMENT_BYTES} bytes"
    elif len(variable.initial) > variable.size:
        reason = f"{len(variable.initial)} initial bytes for {variable.size}"
    if reason is not None:
        raise InvalidFunction(variable.name, None, reason)


def _check_relocation(
    relocation: Relocation, variable: Variable, variables: Collection[str]
) -> None:
    offset, size, shift, bits = (
        relocation.offset,
        relocation.size,
        relocation.shift,
        relocation.bits,
    )
    reason = None
    if relocation.name not in variables:
        reason = f"it holds the address of {relocation.name}, which is not a variable"
    elif size not in (1, 2, 4, 8) or offset < 0 or offset + size > variable.size:
        reason = f"an address in bytes {offset} to {offset + size}"
    elif not (0 <= shift < 64 and 0 < bits <= 8 * size):
        reason = f"{bits} bits of an address from bit {shift} on in {size} bytes"
    elif not -(1 << 63) <= relocation.addend < 1 << 63:
        reason = f"addend {relocation.addend} does not fit 64 bits"
    if reason is not None:
        raise InvalidFunction(variable.name, None, reason)


def _check_refused(refused: Refused) -> None:
    count = len(refused.reasons)
    if not 0 < count <= MAXIMUM_REASONS:
        message = f"it is refused for {count} reasons, not 1 to {MAXIMUM_REASONS}"
        raise InvalidFunction(refused.name, None, message)
    for reason in refused.reasons:
        if not (0 <= reason.line < _U32 and 0 <= reason.column < _U32):
            raise InvalidFunction(refused.name, None, "the place of a reason must fit 32 bits")


def _is_alignment(align: int) -> bool:
    return 0 < align < _U32 and align & (align - 1) == 0


def _check_names(names: list[str]) -> None:
    earlier_names: set[str] = set()
    for name in names:
        if not name:
            raise InvalidFunction("module", None, "a function or variable has no name")
        if name in earlier_names:
            raise InvalidFunction(name, None, "the module has that name twice")
        earlier_names.add(name)
