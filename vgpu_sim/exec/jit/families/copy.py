"""Loads of a given number of bytes: each element has a mask, and the last word a mask of bytes."""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation, Value
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import Op

_WORD_BYTES = 4


def _load(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    access = emitter.memory.access(node)
    lanes = None if mask.full else emitter.masks.flat(mask)
    vectors = range(emitter.values.vectors)
    sizes = [emitter.values.read(node.sources[1], "i32", Form.VECTOR, part) for part in vectors]
    flags = [
        [_requested_lanes(emitter, size, place, lanes[part] if lanes else None)
         for place in range(access.count)]
        for part, size in enumerate(sizes)
    ]  # fmt: skip
    columns = emitter.memory.load_parts(access, flags)
    for place, result in enumerate(node.results):
        if result is not None:
            words = [
                _cut(emitter, column[place], size, place)
                for column, size in zip(columns, sizes, strict=True)
            ]
            _define(emitter, result, words)


def _define(emitter: Emitter, result: Value, words: list[str]) -> None:
    def fill(form: Form, part: int) -> str:
        word = emitter.values.in_form(words[part], "i32", form)
        return emitter.values.extend_to_storage(word, "i32", result, form, signed=False)

    emitter.values.define(result, fill)


def _requested_lanes(emitter: Emitter, size: str, place: int, lanes: str | None) -> str:
    """Return the lanes that read the word at position ``place``."""
    text = emitter.text
    type_ = text.type_of("i32", vector=True)
    begin = text.const(place * _WORD_BYTES, "i32", True)
    requested = text.let(f"icmp ugt {type_} {size}, {begin}")
    return requested if lanes is None else emitter.masks.lanes_in_both(requested, lanes)


def _cut(emitter: Emitter, word: str, size: str, place: int) -> str:
    """Clear the bytes of a word beyond the requested size."""
    text = emitter.text
    type_ = text.type_of("i32", vector=True)

    def const(number: int) -> str:
        return text.const(number, "i32", True)

    whole = text.let(f"icmp uge {type_} {size}, {const((place + 1) * _WORD_BYTES)}")
    bits = text.let(f"shl {type_} {size}, {const(3)}")
    bits = text.let(f"and {type_} {bits}, {const(31)}")  # word boundaries are multiples of 32 bits
    above = text.let(f"shl {type_} {const(1)}, {bits}")
    byte_mask = text.let(f"sub {type_} {above}, {const(1)}")
    part = text.let(f"and {type_} {word}, {byte_mask}")
    return text.select(whole, word, part, "i32", True)


LOWERING: Final[dict[Op, Lowering]] = {Op.LD_ZFILL: _load}
