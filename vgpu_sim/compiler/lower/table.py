"""The binding PTX -> ISA: one row per supported form of an instruction.

``docs/binding.md`` is generated from it. What no row recognises is refused.
"""

from collections import defaultdict

from vgpu_sim.compiler.lower import arithmetic, control, memory, moves
from vgpu_sim.compiler.lower.forms import Form, Lower
from vgpu_sim.isa import Op

_UNSIGNED = ("u16", "u32", "u64")
_SIGNED = ("s16", "s32", "s64")
_BITS = ("b16", "b32", "b64")
_FLOATS = ("f32", "f64")
_INTEGERS = (*_UNSIGNED, *_SIGNED)
_WORDS = (*_BITS, *_INTEGERS, *_FLOATS)
_MEMORY = ("b8", "u8", "s8", *_WORDS)
_CONVERTIBLE = ("u8", "s8", *_INTEGERS, "f16", *_FLOATS)
_UNARY, _BINARY, _TERNARY = "d, a", "d, a, b", "d, a, b, c"


def _plain(pattern: str, operands: str, op: Op, types: tuple[str, ...] = (), isa: str = "") -> Form:
    return Form(pattern, operands, op, arithmetic.plain, types, isa)


def _float_binary(name: str, op: Op) -> tuple[Form, ...]:
    return (
        _plain(f"{name}{{.rnd}}{{.ftz}}{{.sat}}.f32", _BINARY, op),
        _plain(f"{name}{{.rnd}}.f64", _BINARY, op),
    )


_INTEGER = (
    _plain("add.type", _BINARY, Op.ADD, _INTEGERS),
    _plain("sub.type", _BINARY, Op.SUB, _INTEGERS),
    Form("mul.half.type", _BINARY, Op.MUL, arithmetic.product, _INTEGERS),
    Form("mul.wide.type", _BINARY, Op.MUL, arithmetic.product, ("u16", "u32", "s16", "s32")),
    Form("mad.half.type", _TERNARY, Op.MAD, arithmetic.product, _INTEGERS),
    Form("mad.wide.type", _TERNARY, Op.MAD, arithmetic.product, ("u16", "u32", "s16", "s32")),
    _plain("neg.type", _UNARY, Op.NEG, _SIGNED),
    _plain("abs.type", _UNARY, Op.ABS, _SIGNED),
    _plain("min.type", _BINARY, Op.MIN, _INTEGERS),
    _plain("max.type", _BINARY, Op.MAX, _INTEGERS),
    _plain("div.type", _BINARY, Op.DIV, _INTEGERS),
    _plain("rem.type", _BINARY, Op.REM, _INTEGERS),
    Form("shl.type", _BINARY, Op.SHL, arithmetic.shift, _BITS, "the count has 32 bits"),
    Form(
        "shr.type",
        _BINARY,
        Op.SHR,
        arithmetic.shift,
        (*_BITS, *_INTEGERS),
        "arithmetic for signed types; the count has 32 bits",
    ),
    _plain("and.type", _BINARY, Op.AND, ("pred", *_BITS)),
    _plain("or.type", _BINARY, Op.OR, ("pred", *_BITS)),
    _plain("xor.type", _BINARY, Op.XOR, ("pred", *_BITS)),
    _plain("not.type", _UNARY, Op.NOT, ("pred", *_BITS)),
)

_FLOAT = (
    *_float_binary("add", Op.FADD),
    *_float_binary("sub", Op.FSUB),
    *_float_binary("mul", Op.FMUL),
    _plain("fma.rnd{.ftz}{.sat}.f32", _TERNARY, Op.FMA),
    _plain("fma.rnd.f64", _TERNARY, Op.FMA),
    _plain("mad.rnd{.ftz}{.sat}.f32", _TERNARY, Op.FMA),
    _plain("mad.rnd.f64", _TERNARY, Op.FMA),
    _plain("neg{.ftz}.f32", _UNARY, Op.FNEG),
    _plain("neg.f64", _UNARY, Op.FNEG),
    _plain("abs{.ftz}.f32", _UNARY, Op.FABS),
    _plain("abs.f64", _UNARY, Op.FABS),
    _plain("min{.ftz}.f32", _BINARY, Op.FMIN),
    _plain("min.f64", _BINARY, Op.FMIN),
    _plain("max{.ftz}.f32", _BINARY, Op.FMAX),
    _plain("max.f64", _BINARY, Op.FMAX),
    _plain("div.approx{.ftz}.f32", _BINARY, Op.FDIV, isa="rounded to nearest"),
    _plain("div.full{.ftz}.f32", _BINARY, Op.FDIV, isa="rounded to nearest"),
    _plain("div.rnd{.ftz}.f32", _BINARY, Op.FDIV),
    _plain("div.rnd.f64", _BINARY, Op.FDIV),
    _plain("rcp.approx{.ftz}.f32", _UNARY, Op.FRCP, isa="rounded to nearest"),
    _plain("rcp.rnd{.ftz}.f32", _UNARY, Op.FRCP),
    _plain("rcp.rnd.f64", _UNARY, Op.FRCP),
    _plain("sqrt.approx{.ftz}.f32", _UNARY, Op.FSQRT, isa="rounded to nearest"),
    _plain("sqrt.rnd{.ftz}.f32", _UNARY, Op.FSQRT),
    _plain("sqrt.rnd.f64", _UNARY, Op.FSQRT),
)

_COMPARE = (
    Form("setp.cmp{.ftz}.type", "p|q, a, b", Op.SETP, arithmetic.setp, _WORDS),
    Form(
        "setp.cmp.bool{.ftz}.type",
        "p|q, a, b, {!}c",
        Op.SETP,
        arithmetic.setp,
        _WORDS,
        "a negated c is computed by NOT first",
    ),
)

_MOVE = (
    Form(
        "mov.type",
        _UNARY,
        Op.MOV,
        moves.mov,
        ("pred", *_WORDS),
        "S2R for special registers; CVT, SHL, SHR and OR for vectors",
    ),
    Form("cvta.window.u64", _UNARY, Op.MOV, moves.cvta, isa="address unchanged"),
    Form("cvta.to.window.u64", _UNARY, Op.MOV, moves.cvta, isa="address unchanged"),
    Form("selp.type", "d, a, b, p", Op.SELP, moves.selp, _WORDS),
    Form("cvt{.rnd}{.ftz}{.sat}.dtype.atype", _UNARY, Op.CVT, moves.cvt, _CONVERTIBLE),
    Form("cvt.irnd{.ftz}{.sat}.dtype.atype", _UNARY, Op.CVT, moves.cvt, _CONVERTIBLE),
)

_HINTS = "{.evict}{.l2evict}{.policy}"
_LOAD_NOTE = "cache hints are dropped"


def _hinted(pattern: str, operands: str, op: Op, lower: Lower) -> tuple[Form, ...]:
    """Return a form without and with a cache policy operand, which is a hint like the rest."""
    return (
        Form(pattern.replace("{.policy}", ""), operands, op, lower, _MEMORY, _LOAD_NOTE),
        Form(
            pattern.replace("{.policy}", ".L2::cache_hint"),
            f"{operands}, policy",
            op,
            lower,
            _MEMORY,
            _LOAD_NOTE,
        ),
    )


_ACCESS = (
    Form("ld.param{.vec}.type", "d, [a]", Op.LD, memory.load_parameter, _MEMORY),
    Form("ld.param::entry{.vec}.type", "d, [a]", Op.LD, memory.load_parameter, _MEMORY),
    *_hinted(
        f"ld{{.weak}}{{.space}}{{.lcache}}{_HINTS}{{.prefetch}}{{.vec}}.type",
        "d, [a]",
        Op.LD,
        memory.load,
    ),
    *_hinted(
        f"ld{{.weak}}.global{{.lcache}}.nc{_HINTS}{{.prefetch}}{{.vec}}.type",
        "d, [a]",
        Op.LD,
        memory.load,
    ),
    Form("ld.volatile{.global}{.prefetch}{.vec}.type", "d, [a]", Op.LD, memory.load, _MEMORY),
    *_hinted(
        f"st{{.weak}}{{.global}}{{.scache}}{_HINTS}{{.vec}}.type",
        "[a], b",
        Op.ST,
        memory.store,
    ),
    Form("st.volatile{.global}{.vec}.type", "[a], b", Op.ST, memory.store, _MEMORY),
)

_CONTROL = (
    Form("bra{.uni}", "label", Op.BRA, control.branch),
    Form("ret{.uni}", "", Op.RET, control.end),
    Form("exit", "", Op.RET, control.end),
    Form("trap", "", Op.TRAP, control.end),
)

FORMS: tuple[Form, ...] = (*_INTEGER, *_FLOAT, *_COMPARE, *_MOVE, *_ACCESS, *_CONTROL)
"""All rows, in the order of the documentation."""


def _by_opcode() -> dict[str, tuple[Form, ...]]:
    found: dict[str, list[Form]] = defaultdict(list)
    for form in FORMS:
        found[form.opcode].append(form)
    return {opcode: tuple(forms) for opcode, forms in found.items()}


FORMS_BY_OPCODE = _by_opcode()
