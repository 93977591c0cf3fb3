"""Products of matrices and vectors of small whole numbers, which every order of sums gives exactly."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, Array, cast
from benchmarks.torch.rules.exact import make_small, results, small
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cite_page, page

TYPES = (*FLOATS, "complex64")
_RULE = "products are added in float32 for half types, and rounded once"
_BILINEAR = "nn.functional.bilinear"
_IGNORED = "a factor beta of 0 ignores self, also its NaN and infinities"


def _row(
    name: str,
    call: str,
    function: Callable[..., Array | Sequence[Array]],
    shapes: Sequence[Sequence[int]],
    source: str = "",
    accepts: tuple[str, ...] = TYPES,
) -> Row:
    source = source or cite_page(name)
    # Two products in another order have infinities elsewhere.
    make = make_small(call, function, shapes, specials=name not in ("chain_matmul", _BILINEAR))
    return Row(name, "products", _RULE, source, accepts, make)


def _without_self(
    call: str, shapes: Sequence[Sequence[int]], function: Callable[..., Array]
) -> Row:
    """Make a row whose first operand is NaN, and has to be ignored."""
    name = call.split("(")[0].removeprefix("torch.")

    def make(row: Row, dtype: str) -> Iterator[Case]:
        operands = [
            Operand(small(dtype, shape, place), dtype) for place, shape in enumerate(shapes)
        ]
        exact = function(*(operand.values.astype("float64") for operand in operands[1:]))
        ignored = cast(np.full(tuple(shapes[0]), np.nan), dtype)
        case_operands = (Operand(ignored, dtype), *operands[1:])
        expected = results(cast(exact, dtype), dtype, zero_sign=False)
        yield Case(call, case_operands, expected, label=dtype)

    return Row(f"{name}.beta0", "products", _IGNORED, cite_page(name), FLOATS, make)


def _cross(first: Array, second: Array) -> Array:
    return np.cross(first, second)


_A, _B = (3, 4), (4, 5)

ROWS = (
    _row("mm", "torch.mm(a, b)", lambda a, b: a @ b, (_A, _B)),
    _row("bmm", "torch.bmm(a, b)", lambda a, b: a @ b, ((2, 3, 4), (2, 4, 5))),
    _row("mv", "torch.mv(a, b)", lambda a, b: a @ b, (_A, (4,))),
    _row("dot", "torch.dot(a, b)", lambda a, b: np.asarray(a @ b), ((7,), (7,))),
    _row("matmul", "torch.matmul(a, b)", lambda a, b: a @ b, ((2, 3, 4), _B)),
    _row("__matmul__", "a @ b", lambda a, b: a @ b, (_A, _B), cite_page("matmul")),
    _row("inner", "torch.inner(a, b)", lambda a, b: np.inner(a, b), (_A, (5, 4))),
    _row("outer", "torch.outer(a, b)", lambda a, b: np.outer(a, b), ((3,), (4,))),
    _row("kron", "torch.kron(a, b)", lambda a, b: np.kron(a, b), ((2, 3), (3, 2))),
    _row("tensordot", "torch.tensordot(a, b, dims=1)", lambda a, b: np.tensordot(a, b, 1), (_A, _B),
         page("generated/torch.tensordot.html")),
    _row("einsum", "torch.einsum('ij,jk->ki', a, b)", lambda a, b: (a @ b).T, (_A, _B),
         page("generated/torch.einsum.html")),
    _row("addmm", "torch.addmm(c, a, b, beta=2, alpha=3)", lambda a, b, c: 2 * c + 3 * (a @ b),
         (_A, _B, (3, 5))),
    _row("addmv", "torch.addmv(c, a, b)", lambda a, b, c: c + a @ b, (_A, (4,), (3,))),
    _row("addbmm", "torch.addbmm(c, a, b)", lambda a, b, c: c + (a @ b).sum(0),
         ((2, 3, 4), (2, 4, 5), (3, 5))),
    _row("baddbmm", "torch.baddbmm(c, a, b, alpha=2)", lambda a, b, c: c + 2 * (a @ b),
         ((2, 3, 4), (2, 4, 5), (2, 3, 5))),
    _row("addr", "torch.addr(c, a, b)", lambda a, b, c: c + np.outer(a, b), ((3,), (4,), (3, 4))),
    _row("chain_matmul", "torch.linalg.multi_dot((a, b, c))", lambda a, b, c: a @ b @ c,
         (_A, _B, (5, 2)), page("generated/torch.linalg.multi_dot.html"), FLOATS),
    _row("cross", "torch.linalg.cross(a, b)", _cross, ((4, 3), (4, 3)),
         page("generated/torch.linalg.cross.html")),
    _row("nn.functional.linear", "F.linear(a, b, c)", lambda a, b, c: a @ b.T + c,
         (_A, (5, 4), (5,)), page("generated/torch.nn.functional.linear.html")),
    _row(_BILINEAR, "F.bilinear(a, b, c)",
         lambda a, b, c: np.einsum("ni,oij,nj->no", a, c, b), ((2, 3), (2, 4), (5, 3, 4)),
         page("generated/torch.nn.functional.bilinear.html"), ("float32", "float64")),
    _row("vdot", "torch.vdot(a, b)", lambda a, b: np.asarray(np.vdot(a, b)), ((7,), (7,))),
    _without_self("torch.addmm(a, b, c, beta=0)", ((3, 5), _A, _B), lambda b, c: b @ c),
    _without_self("torch.addmv(a, b, c, beta=0)", ((3,), _A, (4,)), lambda b, c: b @ c),
    _without_self("torch.baddbmm(a, b, c, beta=0)", ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
                  lambda b, c: b @ c),
)  # fmt: skip
