"""Render the table of RDMA operations for C: sets of opcodes, and lists for X macros.

``TESSERA_OPERATIONS_<SET>`` has bit N set if opcode N is in the set. ``TESSERA_OPERATIONS(X)``
expands to one X(...) for each operation, ``TESSERA_PACKETS(X)`` to one for each packet.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum, IntFlag

from rdma.operations import (
    CONNECTED,
    Extra,
    Service,
    Shape,
    VerbsOpcode,
    operations_of_shape,
    text_of,
)
from rdma.packets import PACKETS, Kind, Packet, Part
from rdma.verbs import Verb

_NO_PACKET = 0xFF

# shapes whose data may be inline in the request
_INLINE = (Shape.SEND, Shape.WRITE)

_TEST = (
    "static inline _Bool tessera_is_one_of(uint64_t operations, uint32_t opcode) {",
    "  return opcode < 64 && (operations >> opcode & 1) != 0;",
    "}",
)


def _sets() -> Iterator[tuple[str, Iterable[VerbsOpcode]]]:
    every = tuple(VerbsOpcode)
    for shape in Shape:
        yield shape.name, operations_of_shape(shape)
    for extra in (Extra.IMMEDIATE, Extra.INVALIDATE):
        yield (
            f"WITH_{extra.name}",
            (operation for operation in every if operation.row.extra is extra),
        )
    for service in Service:
        yield (
            f"OF_{service.name}",
            (operation for operation in every if service in operation.row.services),
        )
    for service in CONNECTED:
        yield (
            f"WIRED_{service.name}",
            (operation for operation in every if service in operation.row.over_wire),
        )
    yield "INLINE", operations_of_shape(*_INLINE)
    yield "BY_POST_SEND", (operation for operation in every if operation.row.by_post_send)


def _bits(numbers: Iterable[int]) -> str:
    return f"UINT64_C({sum(1 << number for number in numbers):#x})"


def _verbs(verbs: Verb) -> str:
    return " | ".join(f"TESSERA_VERB_{verb.name}" for verb in verbs) or "0"


def _operation(opcode: VerbsOpcode) -> str:
    row, codes = opcode.row, opcode.row.codes
    places = (codes.first, codes.middle, codes.last, codes.only) if codes else (None,) * 4
    numbers = ", ".join(f"{_NO_PACKET if code is None else code:#04x}" for code in places)
    return f'X({opcode.name}, "{text_of(opcode)}", {row.done.name}, {_verbs(row.verbs)}, {numbers})'


def _packet(packet: Packet) -> str:
    operation = 0 if packet.operation is None else packet.operation.value
    return (
        f"X({packet.name}, {packet.code:#04x}, {packet.kind.value}, {packet.parts.value:#x},"
        f" {packet.services.value:#x}, {operation})"
    )


def _members(kind: type[IntEnum] | type[IntFlag]) -> Iterator[str]:
    for member in kind:
        yield f"X({member.name}, {member.value:#x})"


def _list(name: str, columns: str, calls: Iterable[str]) -> Iterator[str]:
    yield f"/* X({columns}) */"
    yield " \\\n  ".join((f"#define {name}(X)", *calls))


def lines() -> Iterator[str]:
    """Yield the lines of the C header with the table of RDMA operations."""
    for name, operations in _sets():
        yield f"#define TESSERA_OPERATIONS_{name} {_bits(operations)}"
    flags = _bits(operation.row.send_ops_bit for operation in VerbsOpcode)
    yield f"#define TESSERA_SEND_OPS_FLAGS {flags}"
    yield ""
    yield from _TEST
    yield ""
    columns = "name, text, name of completion, verbs, codes of packets: first, middle, last, only"
    yield from _list("TESSERA_OPERATIONS", columns, map(_operation, VerbsOpcode))
    yield from _list("TESSERA_PACKET_KINDS", "name, value", _members(Kind))
    yield from _list("TESSERA_PACKET_PARTS", "name, value", _members(Part))
    columns = "name, code, kind, parts, services, operation"
    yield from _list("TESSERA_PACKETS", columns, map(_packet, PACKETS))
