"""Floating-point arithmetic: each instruction is one word."""

from typing import Final

from vgpu_sim.compiler.lower import one_word
from vgpu_sim.compiler.lower.forms import BINARY, TERNARY, UNARY, Form
from vgpu_sim.isa import Op


def _float_binary(name: str, op: Op) -> tuple[Form, ...]:
    return (
        one_word.row(f"{name}{{.rnd}}{{.ftz}}{{.sat}}.f32", BINARY, op),
        one_word.row(f"{name}{{.rnd}}.f64", BINARY, op),
    )


FORMS: Final = (
    *_float_binary("add", Op.FADD),
    *_float_binary("sub", Op.FSUB),
    *_float_binary("mul", Op.FMUL),
    one_word.row("fma.rnd{.ftz}{.sat}.f32", TERNARY, Op.FMA),
    one_word.row("fma.rnd.f64", TERNARY, Op.FMA),
    one_word.row("mad.rnd{.ftz}{.sat}.f32", TERNARY, Op.FMA),
    one_word.row("mad.rnd.f64", TERNARY, Op.FMA),
    one_word.row("neg{.ftz}.f32", UNARY, Op.FNEG),
    one_word.row("neg.f64", UNARY, Op.FNEG),
    one_word.row("abs{.ftz}.f32", UNARY, Op.FABS),
    one_word.row("abs.f64", UNARY, Op.FABS),
    one_word.row("min{.ftz}.f32", BINARY, Op.FMIN),
    one_word.row("min.f64", BINARY, Op.FMIN),
    one_word.row("max{.ftz}.f32", BINARY, Op.FMAX),
    one_word.row("max.f64", BINARY, Op.FMAX),
    one_word.row("div.approx{.ftz}.f32", BINARY, Op.FDIV, isa="rounded to nearest"),
    one_word.row("div.full{.ftz}.f32", BINARY, Op.FDIV, isa="rounded to nearest"),
    one_word.row("div.rnd{.ftz}.f32", BINARY, Op.FDIV),
    one_word.row("div.rnd.f64", BINARY, Op.FDIV),
    one_word.row("rcp.approx{.ftz}.f32", UNARY, Op.FRCP, isa="rounded to nearest"),
    one_word.row("rcp.rnd{.ftz}.f32", UNARY, Op.FRCP),
    one_word.row("rcp.rnd.f64", UNARY, Op.FRCP),
    one_word.row("sqrt.approx{.ftz}.f32", UNARY, Op.FSQRT, isa="rounded to nearest"),
    one_word.row("sqrt.rnd{.ftz}.f32", UNARY, Op.FSQRT),
    one_word.row("sqrt.rnd.f64", UNARY, Op.FSQRT),
)
