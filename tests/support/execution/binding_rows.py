"""The binding's rows spelled as PTX, and executed by the interpreter for many operands."""

import itertools
import math
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.execution.interpreted_ptx import kernel, run as run_kernel
from support.oracles.number_reference import bits_of, float_pattern
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.table import FORMS
from vgpu_sim.compiler.ptx import grammar

Words = dict[str, str]
COUNT = 128
RANDOM = random.Random(1997)


def spellings(form: Form) -> Iterator[tuple[str, Words]]:
    """Yield instructions without operands: with all required words, and with each optional one."""
    required = [slot for slot in form.slots if not slot.optional]
    for words in itertools.product(*(sorted(slot.words) for slot in required)):
        base = dict(zip((slot.name for slot in required), words, strict=True))
        extras = [(s.name, word) for s in form.slots if s.optional for word in sorted(s.words)]
        for extra in [{}, *({name: word} for name, word in extras)]:
            chosen = {**base, **extra}
            ordered = {s.name: chosen[s.name] for s in form.slots if s.name in chosen}
            dotted = tuple(f".{word}" for word in ordered.values())
            # not all of them are PTX
            if grammar.arrange_modifiers(form.opcode, dotted) is not None:
                yield ".".join((form.opcode, *ordered.values())), ordered


def forms(predicate: Callable[[Form], bool]) -> list[object]:
    return [pytest.param(form, id=form.pattern) for form in FORMS if predicate(form)]


def patterns(type_: str) -> list[int]:
    """Return operands: special ones, then random ones."""
    bits = bits_of(type_)
    if type_[0] != "f":
        edges = [0, 1, 2, 31, 32, 33, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
        edges = [edge & ((1 << bits) - 1) for edge in edges]
        shorts = [RANDOM.getrandbits(RANDOM.randint(1, bits)) for _ in range(COUNT)]
        return [RANDOM.choice(edges + shorts) for _ in range(COUNT)]
    floats = [0.5, -1.5, 2.5, 0.75, 1.0, -3.0, 1e-3, 7e3, math.pi, -math.e, 0.1]
    floats += [RANDOM.uniform(-9, 9) for _ in range(COUNT // 2)]
    floats += [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -3e-39, 6e4, 1e38, -2e38] * 3
    return [float_pattern(RANDOM.choice(floats), type_) for _ in range(COUNT)]


def run(
    instruction: str, result: str, operands: list[tuple[str, list[int]]], setup: str = ""
) -> list[int]:
    """Run ``instruction`` over %d, %a, %b, %c, %e and return the patterns of %d."""
    types = [result, *(type_ for type_, _ in operands)]
    arrays = [np.zeros(COUNT, f"<u{bits_of(result) // 8}")]
    arrays += [np.array(values, f"<u{bits_of(type_) // 8}") for type_, values in operands]
    names = "dabce"
    body = ["mov.u32 %i, %tid.x;"]
    for name, type_, place in zip(names, types, range(5), strict=False):
        size = bits_of(type_) // 8
        body.append(f"ld.param.u64 %p{name}, [p{place}];")
        body.append(f"mad.wide.u32 %p{name}, %i, {size}, %p{name};")
        body.append(f"ld.global.b{size * 8} %{name}, [%p{name}];")
    body += [setup, instruction, f"st.global.b{bits_of(result)} [%pd], %d;"]
    widths = {name: max(16, bits_of(type_)) for name, type_ in zip(names, types, strict=False)}
    declared = [f".reg .b{bits} %{name};" for name, bits in widths.items()]
    declared += [f".reg .b64 %p{name};" for name in widths]
    registers = "\n".join([*declared, ".reg .b32 %i, %one; .reg .pred %p, %q, %r;"])
    parameters = ", ".join(f".param .u64 p{place}" for place in range(len(types)))
    source = kernel("\n".join(body), parameters, registers=registers)
    return [int(value) for value in run_kernel(source, arrays, block=(COUNT, 1, 1))[0]]
