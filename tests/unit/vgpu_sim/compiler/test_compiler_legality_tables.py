"""The rules of operands as complete tables from PTX ISA, tested by the legality check alone.

Lowering would refuse many of these operands as well, but only in kernels that it lowers.
"""

import itertools

import pytest

from vgpu_sim.compiler import InvalidPtxError, legality
from vgpu_sim.compiler.ptx import grammar, parse

# Every type of a register (PTX ISA, "Fundamental Types"): its bits, and whether it is a number that
# may be part of an address or index.
TYPES = {
    **{f"{kind}{bits}": (bits, True) for kind in "usb" for bits in (8, 16, 32, 64)},
    "f16": (16, False),
    "f16x2": (32, False),
    "f32": (32, False),
    "f64": (64, False),
    "pred": (1, False),
}
REGISTERS = " ".join(f".reg .{name} %{name}_;" for name in TYPES)
VARIABLES = (
    ".shared .align 16 .b8 of_shared[64]; .local .align 16 .b8 of_local[64];"
    " .param .b64 of_call; .reg .v2 .u32 two; .reg .v4 .f32 four;"
)


def refusal(line: str) -> str:
    """Return why the operand check refuses a line; "" if it is accepted."""
    source = (
        ".version 9.4\n.target sm_100a\n.address_size 64\n"
        ".global .align 16 .b8 of_global[64]; .const .align 16 .b32 of_const[4];\n"
        f".visible .entry k(.param .u64 of_entry) {{\n{REGISTERS} {VARIABLES}\n{line}\nret; }}\n"
    )
    try:
        legality.check_operands(parse(source), source)
    except InvalidPtxError as error:
        return "; ".join(one.message for one in error.diagnostics)
    return ""


# PTX ISA, "Special Registers": .u64 and .pred; all others are .u32 or .b32.
WIDE = {"%gridid", "%clock64", "%globaltimer", "%current_graph_exec"}
WIDE |= {f"%pm{index}_64" for index in range(8)}
PREDICATES = {"%is_explicit_cluster"}
# ... "for compatibility with legacy PTX code, 16-bit mov and cvt instructions may be used to read
# the lower 16 bits"; of %gridid 32 as well.
NARROWER = {"%tid": {16}, "%ntid": {16}, "%ctaid": {16}, "%nctaid": {16}, "%gridid": {16, 32}}


def _widths(name: str) -> set[int]:
    own = 64 if name in WIDE else 1 if name in PREDICATES else 32
    return {own} | NARROWER.get(name, set())


def _read(name: str) -> str:
    return f"{name}.x" if grammar.SPECIAL_REGISTERS[name] else name


@pytest.mark.parametrize("name", sorted(grammar.SPECIAL_REGISTERS))
def test_a_special_register_is_moved_in_its_widths_alone(name: str) -> None:
    for type_, (bits, is_number) in TYPES.items():
        if bits == 8 or type_.startswith("f16") or (bits == 16 and _widths(name) == {32}):
            continue  # no such mov; PTX ISA does not mention 16 bits of other 32-bit registers
        wanted = bits in _widths(name) and (is_number or type_ == "pred")
        found = refusal(f"mov.{type_} %{type_}_, {_read(name)};")
        assert (found == "") == wanted, (type_, found)
        assert wanted or f"{name!r} cannot be read as .{type_}" in found


@pytest.mark.parametrize("name", sorted(grammar.SPECIAL_REGISTERS.keys() - PREDICATES))
def test_a_special_register_is_converted_in_its_widths_alone(name: str) -> None:
    for type_ in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        wanted = TYPES[type_][0] in _widths(name)
        to = "u64" if TYPES[type_][0] < 64 else "u32"
        found = refusal(f"cvt.{to}.{type_} %{to}_, {_read(name)};")
        assert (found == "") == wanted, (type_, found)


@pytest.mark.parametrize("type_", TYPES)
def test_the_number_of_an_element_is_in_a_register_of_32_or_64_bits(type_: str) -> None:
    """PTX ISA, "Arrays as Operands"."""
    bits, is_number = TYPES[type_]
    wanted = is_number and bits in (32, 64)
    for index in (f"%{type_}_", f"%{type_}_+1"):
        found = refusal(f"ld.const.u32 %u32_, of_const[{index}];")
        assert (found == "") == wanted, found
        assert wanted or "register of 32 or 64 bits" in found


# The variables that an instruction may access by the state space that it names. Without a state
# space the address is generic, and only names of variables in generic spaces are allowed.
SPACES = {
    "": {"of_global", "of_shared", "of_local"},
    ".global": {"of_global"},
    ".const": {"of_const"},
    ".shared": {"of_shared"},
    ".shared::cta": {"of_shared"},
    ".local": {"of_local"},
    ".param": {"of_entry", "of_call"},
    ".param::entry": {"of_entry"},
    ".param::func": {"of_call"},
}
NAMES = ("of_global", "of_const", "of_shared", "of_local", "of_entry", "of_call")


@pytest.mark.parametrize(("space", "name"), [*itertools.product(SPACES, NAMES)])
def test_a_load_reaches_variables_of_its_space_alone(space: str, name: str) -> None:
    assert (refusal(f"ld{space}.b32 %b32_, [{name}];") == "") == (name in SPACES[space])


@pytest.mark.parametrize(("space", "name"), [*itertools.product(SPACES, NAMES)])
def test_a_store_reaches_variables_of_its_space_and_no_parameter_of_a_kernel(
    space: str, name: str
) -> None:
    """PTX ISA, "Kernel Function Parameters": they are read-only."""
    if space in (".const", ".param::entry"):
        return  # no store has such a space
    wanted = name in SPACES[space] - {"of_entry"}
    found = refusal(f"st{space}.b32 [{name}], %b32_;")
    assert (found == "") == wanted, found
    if name == "of_entry" and space.startswith(".param"):
        assert (
            found
            == "the variable is in .param::entry space, but the instruction names .param::func"
        )


LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("component", ["", *LETTERS, "xy", "xyzw", "r0"])
def test_a_vector_stands_for_a_number_by_a_component_that_exists(component: str) -> None:
    """PTX ISA, "Vectors as Operands": x, y, z, w, or r, g, b, a."""
    name = f"four.{component}" if component else "four"
    wanted = len(component) == 1 and component in "xyzwrgba"
    assert _accepted_forms(f"add.f32 %f32_, {name}, %f32_;") == wanted
    assert _accepted_forms(f"add.f32 {name}, %f32_, %f32_;") == wanted


def _accepted_forms(line: str) -> bool:
    """Return whether a line can be parsed and fits its form."""
    try:
        return refusal(line) == ""
    except Exception as error:
        if type(error).__name__ != "PtxSyntaxError":
            raise
        return False
