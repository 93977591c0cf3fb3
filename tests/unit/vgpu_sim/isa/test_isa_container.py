"""Containers: exact round trip, and hostile bytes, which only raise ContainerError."""

import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.kernels.isa_programs import functions, instructions, modules
from vgpu_sim.isa import (
    DataType,
    Function,
    Instruction,
    Literal,
    Module,
    Op,
    Parameter,
    Predicate,
    Register,
    Rounding,
    Space,
    Variable,
    container,
    encoding,
    sections,
)
from vgpu_sim.isa.errors import ContainerError, InvalidFunction, IsaError
from vgpu_sim.isa.verify import MAXIMUM_WORDS
from vgpu_sim.isa.wire import Strings

_RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _function(*code: Instruction, **fields: object) -> Function:
    frame = {
        "name": "f",
        "parameters": (),
        "parameter_bytes": 16,
        "register_bits": (32, 64),
        "predicate_count": 2,
        "code": (*code, Instruction(Op.RET)),
        "lines": (0,) * (len(code) + 1),
    }
    return Function(**(frame | fields))


@_RELAXED
@given(modules())
def test_decoding_gives_back_what_was_encoded(module: Module) -> None:
    data = container.encode(module)
    assert container.decode(data) == module
    assert container.encode(container.decode(data)) == data
    assert container.decode_variables(data) == Module((), module.variables)


@pytest.mark.parametrize("op", Op)
def test_every_opcode_survives_the_round_trip(op: Op) -> None:
    @settings(max_examples=40, deadline=None)
    @given(instructions(op, 2))
    def check(instruction: Instruction) -> None:
        variables = tuple(Variable(n, Space.GLOBAL, 8, 8, 0) for n in ("table", "odd name.1", "p0"))
        module = Module((_frame_of(instruction),), variables)
        assert container.decode(container.encode(module)) == module

    check()


def _frame_of(instruction: Instruction) -> Function:
    from support.kernels.isa_programs import PARAMETER_BYTES, PREDICATES, REGISTER_BITS

    return _function(
        instruction,
        parameter_bytes=PARAMETER_BYTES,
        register_bits=REGISTER_BITS,
        predicate_count=PREDICATES,
    )


@_RELAXED
@given(modules(), st.integers(0, 2**32), st.booleans())
def test_flipped_bytes_never_raise_anything_else(module: Module, seed: int, resealed: bool) -> None:
    """Resealed files pass the digest check, so the parsers after it read the damaged bytes."""
    generator = random.Random(seed)
    original = container.encode(module)
    for _ in range(20):
        damaged = bytearray(original)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        data = sections.seal(bytes(damaged)) if resealed else bytes(damaged)
        try:
            decoded = container.decode(data)
        except ContainerError:
            continue
        # A file that is still accepted is valid: it encodes and decodes to itself.
        assert container.decode(container.encode(decoded)) == decoded


@_RELAXED
@given(modules(), st.integers(0, 2**32))
def test_cut_files_are_refused(module: Module, seed: int) -> None:
    data = container.encode(module)
    cut = data[: random.Random(seed).randrange(len(data))]
    for attempt in (cut, sections.seal(cut.ljust(40, b"\0")), data + b"\0"):
        with pytest.raises(ContainerError):
            container.decode(attempt)


@given(st.binary(max_size=200))
def test_random_code_is_decoded_or_refused(words: bytes) -> None:
    try:
        encoding.decode(words, (1, 2), {0: "table"})
    except ContainerError:
        return


@pytest.mark.parametrize(
    ("position", "byte", "reason"),
    [
        (0, 0x7F, "opcode 0x27f is not defined"),
        (1, 0x7F, "opcode 0x7f00 is not defined"),
        (2, 0x63, "type 0x63 is not defined"),
        (3, 0x01, "bit 24, which ADD does not use, is not zero"),
        (4, 0x40, "bit 38, which ADD does not use, is not zero"),
        (5, 0x80, "bit 47, which ADD does not use, is not zero"),
        (6, 0x02, "guard p2 does not exist"),
        (8, 0x09, "r9 does not exist"),
        (9, 0x80, "a literal cannot be a destination"),
        (12, 0x07, "pool entry 7 does not exist"),
        (14, 0x01, "bit 112, which ADD does not use, is not zero"),
    ],
)
def test_an_undefined_field_is_named_with_its_word(position: int, byte: int, reason: str) -> None:
    add = Instruction(Op.ADD, DataType.S32, (Register(0),), (Register(0), Literal(5)))
    function = _function(Instruction(Op.NOP), add)
    data = container.encode(Module((function,)))
    words = encoding.encode(function).words
    begin = data.index(words) + 16 + position
    guard = b"\x02\x00" if position == 6 else bytes([byte])
    damaged = sections.seal(data[:begin] + guard + data[begin + len(guard) :])
    with pytest.raises(ContainerError, match=r"word 1: ") as caught:
        container.decode(damaged)
    assert reason in str(caught.value)


def test_vector_operands_may_be_any_registers() -> None:
    load = Instruction(
        Op.LD,
        DataType.B32,
        (Register(1), None, Register(0), Register(2)),
        (Register(1),),
        space=Space.GLOBAL,
        vector=4,
    )
    store = Instruction(
        Op.ST,
        DataType.B32,
        (),
        (Register(1), Register(2), Literal(7)),
        space=Space.GLOBAL,
        vector=2,
    )
    module = Module((_function(load, store, register_bits=(32, 64, 32)),))
    assert container.decode(container.encode(module)) == module


def test_literals_are_pooled_once() -> None:
    move = Instruction(Op.MOV, DataType.B64, (Register(1),), (Literal(2**63),))
    assert encoding.encode(_function(move, move)).pool == (2**63,)


def test_a_pool_overflow_is_an_error() -> None:
    code = [
        Instruction(Op.MOV, DataType.B64, (Register(1),), (Literal(value),))
        for value in range(0x8000)
    ]
    with pytest.raises(InvalidFunction, match="more than 32767 distinct literals"):
        container.encode(Module((_function(*code),)))


@pytest.mark.parametrize("major", [3, 5])
def test_another_version_is_refused(major: int) -> None:
    data = bytearray(container.encode(Module(())))
    data[8] = major
    reason = rf"the container has version {major}\.0, but this Tessera reads 4\.0"
    with pytest.raises(ContainerError, match=reason):
        container.decode(sections.seal(bytes(data)))


def test_bytes_between_sections_must_be_zero() -> None:
    """Equal modules have equal bytes, on which content addresses rely."""
    variable = Variable("v", Space.GLOBAL, 4, 4, 0)
    data = container.encode(Module((), (variable,), source="x"))
    assert data[-16:] == b"v" + bytes(15)
    for place in (len(data) - 1, data.index(b"x" + bytes(15)) + 1):
        damaged = bytearray(data)
        damaged[place] = 1
        with pytest.raises(ContainerError):
            container.decode(sections.seal(bytes(damaged)))


@pytest.mark.parametrize(("offset", "size"), [(2, 2), (3, 1), (4, 0), (0, 4), (2**32 - 1, 2)])
def test_a_string_that_ends_outside_of_its_section_is_refused(offset: int, size: int) -> None:
    assert Strings(b"abc").get(1, 2) == "bc"
    where = f"string of {size} bytes at offset {offset} is outside its section"
    with pytest.raises(ContainerError, match=where):
        Strings(b"abc").get(offset, size)


def test_names_that_overlap_are_refused() -> None:
    """Otherwise a file of a megabyte could contain gigabytes of names."""
    parameters = tuple(Parameter("q" * 40 + letter, 0, 1, 1) for letter in "abc")
    data = container.encode(Module((_function(parameters=parameters),)))
    where = [data.index(struct.pack("<2I", 1 + 41 * index, 41)) for index in range(3)]
    damaged = bytearray(data)
    for place, name in zip(where, ((0, 100), (1, 100), (2, 100)), strict=True):
        damaged[place : place + 8] = struct.pack("<2I", *name)
    with pytest.raises(ContainerError, match="overlaps others"):
        container.decode(sections.seal(bytes(damaged)))


def test_too_many_words_are_refused_before_they_are_decoded() -> None:
    words = bytes(16 * (MAXIMUM_WORDS + 1))
    with pytest.raises(ContainerError, match="too many for a function"):
        encoding.decode(words, (), {})


def test_announced_functions_must_be_there() -> None:
    """A count alone must not make the decoder allocate memory or loop."""
    data = container.encode(Module((), source="x"))
    record = struct.pack("<6I", 5, 0, 0, 0, 0, 0)
    huge = struct.pack("<6I", 5, 0, 0, 0, 0xFFFF_FFFF, 0)
    with pytest.raises(ContainerError, match="7 sections do not match 4294967295 functions"):
        container.decode(sections.seal(data.replace(record, huge)))


_MOV = Instruction(Op.MOV, DataType.B32, (Register(0),), (Literal(1),))


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        (Instruction(Op.ADD, DataType.F32, (Register(0),), (Literal(1),) * 2), "type F32"),
        (
            Instruction(Op.ADD, DataType.S32, (Register(0),), (Literal(1),)),
            "number of sources is 1, not 2",
        ),
        (Instruction(Op.ADD, DataType.S64, (Register(0),), (Literal(1),) * 2), "64 are needed"),
        (Instruction(Op.ADD, DataType.S32, (Predicate(0),), (Literal(1),) * 2), "p0 is used where"),
        (Instruction(Op.ADD, DataType.S32, (None,), (Literal(1),) * 2), "absent"),
        (Instruction(Op.BRA, target=9), "target 9 is outside"),
        (Instruction(Op.CVT, DataType.S32, (Register(0),), (Literal(1),)), "needs a source type"),
        (
            Instruction(
                Op.CVT, DataType.S32, (Register(0),), (Literal(1),), source_type=DataType.F32
            ),
            "does not take rounding NONE",
        ),
        (
            Instruction(
                Op.FADD,
                DataType.F16,
                (Register(0),),
                (Literal(1),) * 2,
                rounding=Rounding.RZ,
            ),
            "FADD.F16 does not take rounding RZ",
        ),
        (Instruction(Op.MOV, DataType.PRED, (Predicate(0),), (Literal(2),)), "0 or 1"),
        (
            Instruction(Op.LD, DataType.B32, (Register(0),), space=Space.PARAM, displacement=13),
            "parameter bytes 13 to 17 do not exist",
        ),
        (
            Instruction(
                Op.LD,
                DataType.B64,
                tuple(map(Register, range(4))),
                (Register(1),),
                vector=4,
                space=Space.SHARED,
            ),
            "4 times B64 is more than 16 bytes",
        ),
        (
            Instruction(
                Op.CVT,
                DataType.S32,
                (Register(0),),
                (Literal(1),),
                source_type=DataType.F64,
                rounding=Rounding.RZI,
                ftz=True,
            ),
            "CVT.S32.F64 does not take FTZ",
        ),
        (
            Instruction(Op.LD, DataType.B32, (Register(0),), space=Space.PARAM, volatile=True),
            "LD.PARAM cannot be VOLATILE",
        ),
        (
            Instruction(
                Op.LD,
                DataType.B32,
                (Register(0),),
                (Register(0),),
                space=Space.SHARED,
                read_only=True,
            ),
            "LD.SHARED cannot be READONLY",
        ),
        (
            Instruction(Op.ST, DataType.B32, (), (Register(1), Register(0)), space=Space.CONST),
            "ST.B32 does not take space CONST",
        ),
        (
            Instruction(Op.LD, DataType.B32, (Register(0),), (Register(0),), space=Space.GLOBAL),
            "r0 has 32 bits where 64 are needed",
        ),
    ],
)
def test_an_invalid_instruction_is_refused_with_its_place(
    instruction: Instruction, reason: str
) -> None:
    with pytest.raises(InvalidFunction) as caught:
        container.encode(Module((_function(_MOV, instruction),)))
    assert caught.value.word == 1
    assert reason in caught.value.reason
    assert str(caught.value).startswith("f, word 1: ")


def test_a_function_must_end() -> None:
    function = _function(code=(_MOV,), lines=(0,))
    with pytest.raises(InvalidFunction, match="last word must be an unguarded"):
        container.encode(Module((function,)))


@pytest.mark.parametrize(("own", "calls"), [((512 << 10) + 4, False), ((508 << 10) + 4, True)])
def test_a_function_has_no_more_local_memory_than_a_thread_can_have(own: int, calls: bool) -> None:
    size = Instruction(Op.LOCAL_BYTES, DataType.U32, (Register(0),))
    code = [size] if calls else []
    most = Module((_function(*code, local_bytes=own - 4),))
    assert container.decode(container.encode(most)) == most
    with pytest.raises(InvalidFunction, match=f"{own} bytes of local memory"):
        container.encode(Module((_function(*code, local_bytes=own),)))


@_RELAXED
@given(functions("f"))
def test_random_functions_are_valid_only_with_their_variables(function: Function) -> None:
    uses = any("Symbol" in repr(i.srcs) for i in function.code)
    if uses:
        with pytest.raises(IsaError, match="is not a variable of the module"):
            container.encode(Module((function,)))
    else:
        container.encode(Module((function,)))


def test_the_code_of_all_functions_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = container.encode(Module((_function(), _function(name="g"))))
    monkeypatch.setattr(container, "MAXIMUM_MODULE_WORDS", 2)
    container.decode(data)
    monkeypatch.setattr(container, "MAXIMUM_MODULE_WORDS", 1)
    with pytest.raises(ContainerError, match="32 bytes of code are too many"):
        container.decode(data)
