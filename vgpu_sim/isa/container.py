"""A module as a file: what ``encode`` writes, ``decode`` reads back identically.

Everything that ``decode`` returns has passed ``verify``. The frame is ``sections``; all numbers are
little-endian, a name is (u32 offset, u32 size) in the string section::

    MODULE       u32 capability major, minor, PTX version major, minor, functions, variables
    VARIABLES    name, u32 space, align, u64 size, offset, initial bytes      (each)
    INITIAL_DATA the variables' initial bytes, in order
    SOURCE       the PTX it came from
    REFUSED      name, u32 kernel (1) or variable (0), u32 reasons, and for each of them
                 u32 line, column, message and text (as names are)   (each)
    ADDRESSES    u32 variable, size, shift, bits, u64 offset, i64 addend, u32 of which variable,
                 u32 zero: where initial data is an address         (each)
    FUNCTION     name, u32 parameter bytes, predicates, shared bytes, local bytes,
                 u32 flags (1: required block, 2: maximum block), u32 required[3], maximum[3],
                 u32 variable of the parameters' image or 0xffffffff
    REGISTERS    u8 bits of each register
    PARAMETERS   name, u32 offset, size, align, pointer space or 0xffffffff   (each)
    CODE         16-byte words (see ``encoding``)
    LITERALS     u64 each
    RELOCATIONS  u32 literal, u32 variable: literal += the variable's address (each)
    LINES        u32 PTX line of each word
    PHYSICAL     u32 peak registers, spill bytes, then i32 slot of each register, or nothing
"""

import struct
from dataclasses import replace
from typing import Final

from vgpu_sim.isa import encoding
from vgpu_sim.isa.errors import ContainerError, InvalidFunction
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.module import (
    Diagnostic,
    Function,
    Module,
    Parameter,
    PhysicalAllocation,
    Refused,
    Relocation,
    Variable,
)
from vgpu_sim.isa.sections import (
    FUNCTION_SECTIONS,
    MODULE_OWNER,
    MODULE_SECTIONS,
    Section,
    Sections,
    is_container,
    pack,
    unpack,
)
from vgpu_sim.isa.types import Space
from vgpu_sim.isa.verify import MAXIMUM_MODULE_WORDS, check_module
from vgpu_sim.isa.wire import Reader, Strings, decode_text, encode_text

__all__ = ["decode", "decode_source", "decode_variables", "encode", "is_container"]

_MODULE = struct.Struct("<6I")
_VARIABLE = struct.Struct("<4I3Q")
_REFUSED = struct.Struct("<4I")
_REASON = struct.Struct("<6I")
_FUNCTION = struct.Struct("<18I")
_PARAMETER = struct.Struct("<6I")
_RELOCATION = struct.Struct("<2I")
_ADDRESS = struct.Struct("<4IQq2I")
_PHYSICAL = struct.Struct("<2I")
_U64, _U32, _I32, _U8 = (struct.Struct("<" + code) for code in "QIiB")
_NO_SPACE: Final = 0xFFFF_FFFF
_NO_VARIABLE: Final = 0xFFFF_FFFF
_Block = tuple[int, int, int]


def encode(module: Module) -> bytes:
    """Encode a module; equal modules give equal bytes.

    Raises:
        InvalidFunction: ``verify`` refuses the module, or a literal pool overflows.
        ContainerError: a text in the module has no UTF-8 form.
    """
    check_module(module)
    strings = Strings()
    sections: Sections = {}
    indices = {variable.name: index for index, variable in enumerate(module.variables)}
    sections[Section.MODULE, MODULE_OWNER] = _MODULE.pack(
        *module.required_capability,
        *module.ptx_version,
        len(module.functions),
        len(module.variables),
    )
    sections[Section.VARIABLES, MODULE_OWNER] = b"".join(
        _VARIABLE.pack(*strings.add(v.name), v.space, v.align, v.size, v.offset, len(v.initial))
        for v in module.variables
    )
    sections[Section.INITIAL_DATA, MODULE_OWNER] = b"".join(v.initial for v in module.variables)
    sections[Section.ADDRESSES, MODULE_OWNER] = b"".join(
        _ADDRESS.pack(owner, r.size, r.shift, r.bits, r.offset, r.addend, indices[r.name], 0)
        for owner, variable in enumerate(module.variables)
        for r in variable.relocations
    )
    sections[Section.SOURCE, MODULE_OWNER] = encode_text(module.source)
    sections[Section.REFUSED, MODULE_OWNER] = b"".join(
        _encode_refused(refused, strings) for refused in module.refused
    )
    for owner, function in enumerate(module.functions):
        for kind, content in _encode_function(function, indices, strings).items():
            sections[kind, owner] = content
    sections[Section.STRINGS, MODULE_OWNER] = strings.to_bytes()
    return pack(sections)


def decode(data: bytes) -> Module:
    """Decode a module from untrusted bytes.

    Raises:
        ContainerError: ``encode`` cannot have written these bytes.
    """
    sections = unpack(data)
    try:
        module = _decode_module(sections)
        check_module(module)
    except InvalidFunction as error:
        raise ContainerError(str(error)) from error
    return module


def decode_variables(data: bytes) -> Module:
    """Decode a module without its kernels: the time does not depend on the amount of code.

    Raises:
        ContainerError: ``encode`` cannot have written the variables.
    """
    sections = unpack(data)
    try:
        module = Module(
            (), _decode_variables(sections, Strings(_section(sections, Section.STRINGS)))
        )
        check_module(module)
    except InvalidFunction as error:
        raise ContainerError(str(error)) from error
    return module


def decode_source(data: bytes) -> bytes:
    """Return the UTF-8 text from which a module was made, without decoding its code.

    Raises:
        ContainerError: the file is not intact, or has no source section.
    """
    return _section(unpack(data), Section.SOURCE)


def _encode_refused(refused: Refused, strings: Strings) -> bytes:
    head = _REFUSED.pack(*strings.add(refused.name), refused.is_kernel, len(refused.reasons))
    return head + b"".join(
        _REASON.pack(
            reason.line, reason.column, *strings.add(reason.message), *strings.add(reason.text)
        )
        for reason in refused.reasons
    )


def _encode_function(
    function: Function, variables: dict[str, int], strings: Strings
) -> dict[Section, bytes]:
    required, maximum = function.required_block, function.maximum_block
    cluster = function.required_cluster
    header = _FUNCTION.pack(
        *strings.add(function.name),
        function.parameter_bytes,
        function.predicate_count,
        function.shared_bytes,
        function.local_bytes,
        function.maximum_cluster,
        (required is not None)
        | (maximum is not None) << 1
        | (cluster is not None) << 2
        | function.counts_clusters << 3
        | function.tensor_memory << 4,
        *(required or (0, 0, 0)),
        *(maximum or (0, 0, 0)),
        *(cluster or (0, 0, 0)),
        variables[function.parameter_image] if function.parameter_image else _NO_VARIABLE,
    )
    parameters = b"".join(
        _PARAMETER.pack(
            *strings.add(p.name),
            p.offset,
            p.size,
            p.align,
            _NO_SPACE if p.pointer_space is None else p.pointer_space,
        )
        for p in function.parameters
    )
    code = encoding.encode(function)
    relocations = (_RELOCATION.pack(i, variables[name]) for i, name in code.relocations.items())
    physical = function.physical
    return {
        Section.FUNCTION: header,
        Section.REGISTERS: bytes(function.register_bits),
        Section.PARAMETERS: parameters,
        Section.CODE: code.words,
        Section.LITERALS: b"".join(map(_U64.pack, code.pool)),
        Section.RELOCATIONS: b"".join(relocations),
        Section.LINES: b"".join(map(_U32.pack, function.lines)),
        Section.PHYSICAL: _PHYSICAL.pack(physical.peak_registers, physical.spill_bytes)
        + b"".join(map(_I32.pack, physical.slots)),
    }


def _decode_module(sections: Sections) -> Module:
    reader = _reader(sections, Section.MODULE)
    major, minor, ptx_major, ptx_minor, functions, variables = reader.unpack(_MODULE)
    reader.finish()
    if len(sections) != len(MODULE_SECTIONS) + functions * len(FUNCTION_SECTIONS):
        raise ContainerError(f"{len(sections)} sections do not match {functions} functions")
    code_bytes = sum(len(sections.get((Section.CODE, owner), b"")) for owner in range(functions))
    if code_bytes > MAXIMUM_MODULE_WORDS * encoding.WORD_BYTES:
        raise ContainerError(f"{code_bytes} bytes of code are too many for a module")
    strings = Strings(_section(sections, Section.STRINGS))
    decoded = _decode_variables(sections, strings)
    if len(decoded) != variables:
        raise ContainerError(
            f"section MODULE announces {variables} variables, but there are {len(decoded)}"
        )
    names = [variable.name for variable in decoded]
    return Module(
        functions=tuple(
            _decode_function(sections, owner, names, strings) for owner in range(functions)
        ),
        variables=decoded,
        required_capability=(major, minor),
        ptx_version=(ptx_major, ptx_minor),
        source=decode_text(_section(sections, Section.SOURCE)),
        refused=_decode_refused(sections, strings),
    )


def _decode_variables(sections: Sections, strings: Strings) -> tuple[Variable, ...]:
    data = _reader(sections, Section.INITIAL_DATA)
    result = []
    for record in _reader(sections, Section.VARIABLES).rest(_VARIABLE):
        name, name_size, space, align, size, offset, initial = record
        result.append(
            Variable(
                strings.get(name, name_size), _space(space), align, size, offset, data.take(initial)
            )
        )
    data.finish()
    addresses = _decode_addresses(sections, [variable.name for variable in result])
    return tuple(
        replace(variable, relocations=tuple(addresses.get(owner, ())))
        for owner, variable in enumerate(result)
    )


def _decode_addresses(sections: Sections, names: list[str]) -> dict[int, list[Relocation]]:
    addresses: dict[int, list[Relocation]] = {}
    earlier_owner = 0
    for record in _reader(sections, Section.ADDRESSES).rest(_ADDRESS):
        owner, size, shift, bits, offset, addend, target, zero = record
        if not earlier_owner <= owner < len(names) or target >= len(names) or zero:
            raise ContainerError(
                f"section ADDRESSES: invalid address of variable {target} in variable {owner}"
            )
        earlier_owner = owner
        relocation = Relocation(offset, size, names[target], addend, shift, bits)
        addresses.setdefault(owner, []).append(relocation)
    return addresses


def _decode_refused(sections: Sections, strings: Strings) -> tuple[Refused, ...]:
    reader = _reader(sections, Section.REFUSED)
    result = []
    while reader.remaining:
        name, name_size, is_kernel, count = reader.unpack(_REFUSED)
        if is_kernel > 1:
            raise ContainerError(f"section REFUSED: kind {is_kernel} is not defined")
        title = strings.get(name, name_size)
        reasons = tuple(_decode_reason(reader, strings) for _ in range(count))
        result.append(Refused(title, reasons, is_kernel == 1))
    return tuple(result)


def _decode_reason(reader: Reader, strings: Strings) -> Diagnostic:
    line, column, message, message_size, text, text_size = reader.unpack(_REASON)
    return Diagnostic(
        line, column, strings.get(message, message_size), strings.get(text, text_size)
    )


def _decode_function(
    sections: Sections, owner: int, variables: list[str], strings: Strings
) -> Function:
    reader = _reader(sections, Section.FUNCTION, owner)
    name, name_size, parameter_bytes, predicates, shared, local, *fields = reader.unpack(_FUNCTION)
    maximum_cluster, flags, *blocks, image = fields
    reader.finish()
    if image != _NO_VARIABLE and image >= len(variables):
        raise ContainerError(f"function {owner}: variable {image} does not exist")
    if flags > 31:
        raise ContainerError(f"function {owner}: flags {flags:#x} are not defined")
    title = strings.get(name, name_size)
    return Function(
        name=title,
        parameters=_decode_parameters(sections, owner, strings),
        parameter_bytes=parameter_bytes,
        register_bits=tuple(_section(sections, Section.REGISTERS, owner)),
        predicate_count=predicates,
        code=_decode_code(sections, owner, variables),
        lines=tuple(line for (line,) in _reader(sections, Section.LINES, owner).rest(_U32)),
        required_block=_block(blocks[:3], flags & 1 == 1),
        maximum_block=_block(blocks[3:6], flags & 2 == 2),
        required_cluster=_block(blocks[6:], flags & 4 == 4),
        counts_clusters=flags & 8 == 8,
        maximum_cluster=maximum_cluster,
        shared_bytes=shared,
        local_bytes=local,
        physical=_decode_physical(sections, owner),
        parameter_image="" if image == _NO_VARIABLE else variables[image],
        tensor_memory=flags & 16 == 16,
    )


def _decode_parameters(sections: Sections, owner: int, strings: Strings) -> tuple[Parameter, ...]:
    result = []
    for record in _reader(sections, Section.PARAMETERS, owner).rest(_PARAMETER):
        name, name_size, offset, size, align, space = record
        pointer = None if space == _NO_SPACE else _space(space)
        result.append(Parameter(strings.get(name, name_size), offset, size, align, pointer))
    return tuple(result)


def _decode_code(sections: Sections, owner: int, variables: list[str]) -> tuple[Instruction, ...]:
    pool = tuple(value for (value,) in _reader(sections, Section.LITERALS, owner).rest(_U64))
    relocations: dict[int, str] = {}
    for literal, variable in _reader(sections, Section.RELOCATIONS, owner).rest(_RELOCATION):
        if literal >= len(pool) or variable >= len(variables) or literal in relocations:
            raise ContainerError(f"function {owner}: relocation of literal {literal} is invalid")
        relocations[literal] = variables[variable]
    try:
        return encoding.decode(_section(sections, Section.CODE, owner), pool, relocations)
    except ContainerError as error:
        raise ContainerError(f"function {owner}, {error}") from error


def _decode_physical(sections: Sections, owner: int) -> PhysicalAllocation:
    reader = _reader(sections, Section.PHYSICAL, owner)
    peak, spill = reader.unpack(_PHYSICAL)
    slots = tuple(slot for (slot,) in reader.rest(_I32))
    return PhysicalAllocation(slots, peak, spill)


def _block(extents: list[int], present: bool) -> _Block | None:
    x, y, z = extents
    if not present and any(extents):
        raise ContainerError("a size is set, but its flag states that it is absent")
    return (x, y, z) if present else None


def _space(value: int) -> Space:
    try:
        return Space(value)
    except ValueError:
        raise ContainerError(f"space {value} is not defined") from None


def _section(sections: Sections, kind: Section, owner: int = MODULE_OWNER) -> bytes:
    try:
        return sections[kind, owner]
    except KeyError:
        whose = "the module" if owner == MODULE_OWNER else f"function {owner}"
        raise ContainerError(f"section {kind.name} of {whose} is missing") from None


def _reader(sections: Sections, kind: Section, owner: int = MODULE_OWNER) -> Reader:
    return Reader(_section(sections, kind, owner), kind.name)
